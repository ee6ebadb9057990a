//! Keys and signatures: Ed25519 over the root hash.
//!
//! The root covers the header, and through the page hashes every table, among them the BLAKE3
//! hashes of all contents. A signature says that the owner of the secret key made these tables;
//! `verify` compares the contents with them.
//!
//! Keys are files: PEM as OpenSSL writes it (`openssl genpkey -algorithm ed25519`, `openssl pkey
//! -pubout`), 64 hexadecimal digits, or 32 bytes.

use std::fmt;
use std::path::Path;

use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SIGNED_PREFIX, SignatureRecord};

/// Longest file that may be a key.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Signs packages. Its bytes are wiped when it is dropped.
pub struct SecretKey(SigningKey);

/// Tells whether a package was signed with a secret key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl SecretKey {
    /// A key of its 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from_bytes(bytes))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, or is no secret key.
    pub fn read(path: impl AsRef<Path>) -> Result<SecretKey> {
        let path = path.as_ref();
        let bytes = read_key(path)?;
        let key = match text(&bytes).filter(|text| text.contains("-----BEGIN")) {
            Some(pem) => SigningKey::from_pkcs8_pem(pem).ok(),
            None => plain(&bytes).map(|bytes| SigningKey::from_bytes(&bytes)),
        };
        let cause = "not an Ed25519 secret key: expected PEM, 64 hexadecimal digits, or 32 bytes";
        let wrong = || Error::new(ErrorKind::InvalidArgument, cause).of(path);
        key.map(SecretKey).ok_or_else(wrong)
    }

    /// The public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, root: &[u8; 32]) -> SignatureRecord {
        SignatureRecord {
            public_key: self.0.verifying_key().to_bytes(),
            signature: self.0.sign(&message(root)).to_bytes(),
        }
    }
}

impl PublicKey {
    /// A key of its 32 bytes.
    ///
    /// # Errors
    /// They are no point of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<PublicKey> {
        let cause = "the 32 bytes are not an Ed25519 public key";
        let wrong = |_| Error::new(ErrorKind::InvalidArgument, cause);
        VerifyingKey::from_bytes(bytes)
            .map(PublicKey)
            .map_err(wrong)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, or is no public key.
    pub fn read(path: impl AsRef<Path>) -> Result<PublicKey> {
        let path = path.as_ref();
        let bytes = read_key(path)?;
        let key = match text(&bytes).filter(|text| text.contains("-----BEGIN")) {
            Some(pem) => VerifyingKey::from_public_key_pem(pem).ok(),
            None => plain(&bytes).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok()),
        };
        let cause = "not an Ed25519 public key: expected PEM, 64 hexadecimal digits, or 32 bytes";
        let wrong = || Error::new(ErrorKind::InvalidArgument, cause).of(path);
        key.map(PublicKey).ok_or_else(wrong)
    }

    /// Whether a package's signature is one of its root, by this key.
    ///
    /// # Errors
    /// `Signature`: it is of another key, or wrong.
    pub fn verify(&self, record: &SignatureRecord, root: &[u8; 32]) -> Result<()> {
        let wrong = |cause| Err(Error::new(ErrorKind::Signature, cause));
        if record.public_key != self.0.to_bytes() {
            return wrong("the package is signed with another key");
        }
        let signature = Signature::from_bytes(&record.signature);
        match self.0.verify_strict(&message(root), &signature) {
            Ok(()) => Ok(()),
            Err(_) => wrong("the signature does not match: the package's tables were changed"),
        }
    }
}

fn message(root: &[u8; 32]) -> [u8; 48] {
    let mut message = [0; 48];
    message[..16].copy_from_slice(SIGNED_PREFIX);
    message[16..].copy_from_slice(root);
    message
}

fn read_key(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let failed = |error| Error::io(path, "read the key", error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(KEY_FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A key as bytes or as hexadecimal digits.
fn plain(bytes: &[u8]) -> Option<[u8; 32]> {
    if let Ok(bytes) = bytes.try_into() {
        return Some(bytes);
    }
    let digits = text(bytes)?.trim().as_bytes();
    let mut key = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(key)
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey of {:?}", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of RFC 8032, section 7.1, test 1, as OpenSSL writes them.
    const SECRET: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
";
    const SECRET_HEX: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

    #[test]
    fn keys_are_read_in_three_forms() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let secret = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            SecretKey::read(&path)
        };
        let of_hex = secret(format!("{SECRET_HEX}\n").as_bytes()).expect("a key");
        let of_pem = secret(SECRET.as_bytes()).expect("a key");
        let of_bytes = secret(of_hex.0.as_bytes()).expect("a key");
        std::fs::write(&path, PUBLIC).expect("written");
        let public = PublicKey::read(&path).expect("a key");
        for key in [of_hex, of_pem, of_bytes] {
            assert_eq!(key.public(), public);
        }
        assert!(secret(b"no key").is_err());
        assert!(secret(&[b'g'; 64]).is_err());
        assert!(secret(PUBLIC.as_bytes()).is_err());
    }

    #[test]
    fn a_signature_is_of_one_root_and_one_key() {
        let (ours, other) = (
            SecretKey::from_bytes(&[1; 32]),
            SecretKey::from_bytes(&[2; 32]),
        );
        let record = ours.sign(&[7; 32]);
        ours.public().verify(&record, &[7; 32]).expect("right");
        assert!(ours.public().verify(&record, &[8; 32]).is_err());
        assert!(other.public().verify(&record, &[7; 32]).is_err());
        let mut forged = record;
        forged.public_key = other.public().to_bytes();
        assert!(other.public().verify(&forged, &[7; 32]).is_err());
    }
}
