//! Keys and signatures: Ed25519 over a root hash.
//!
//! The root hash covers the header, and through the page hashes every table, including the BLAKE3
//! hashes of all contents. A signature proves that the owner of the secret key signed these tables;
//! `verify` compares the contents with them.
//!
//! Keys are PEM files as OpenSSL writes them (`openssl genpkey -algorithm ed25519`, `openssl pkey
//! -pubout`).

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SIGNED_PREFIX, SignatureRecord};

/// Bytes of a key file that are read: no key is longer.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// A secret key, which signs packages. Its bytes are wiped when it is dropped.
pub struct SecretKey(SigningKey);

/// A public key, which verifies the signatures of its secret key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl SecretKey {
    /// Creates a key from its 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from_bytes(bytes))
    }

    /// Reads a key file in PEM.
    ///
    /// # Errors
    /// The file cannot be read, or is not an Ed25519 secret key.
    pub fn read(path: impl AsRef<Path>) -> Result<SecretKey> {
        let of_pem = |pem: &str| SigningKey::from_pkcs8_pem(pem).ok();
        read(path.as_ref(), "secret", of_pem).map(SecretKey)
    }

    /// Returns the public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a root hash. The prefix says of what it is the root, so that the signature is valid
    /// for nothing else: [`SIGNED_PREFIX`] for packages.
    #[must_use]
    pub fn sign(&self, prefix: &[u8; 16], root: &[u8; 32]) -> SignatureRecord {
        SignatureRecord {
            public_key: self.0.verifying_key().to_bytes(),
            signature: self.0.sign(&message(prefix, root)).to_bytes(),
        }
    }
}

impl PublicKey {
    /// Creates a key from its 32 bytes.
    ///
    /// # Errors
    /// The bytes are not a point of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<PublicKey> {
        let cause = "the 32 bytes are not an Ed25519 public key";
        let wrong = |_| Error::new(ErrorKind::InvalidArgument, cause);
        VerifyingKey::from_bytes(bytes)
            .map(PublicKey)
            .map_err(wrong)
    }

    /// Returns the 32 bytes of the key.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Reads a key file in PEM.
    ///
    /// # Errors
    /// The file cannot be read, or is not an Ed25519 public key.
    pub fn read(path: impl AsRef<Path>) -> Result<PublicKey> {
        let of_pem = |pem: &str| VerifyingKey::from_public_key_pem(pem).ok();
        read(path.as_ref(), "public", of_pem).map(PublicKey)
    }

    /// Checks that a package's signature is this key's signature of its root hash.
    ///
    /// # Errors
    /// `Signature`: the signature is of another key, or wrong.
    pub fn verify(&self, record: &SignatureRecord, root: &[u8; 32]) -> Result<()> {
        self.verify_as(SIGNED_PREFIX, record, root)
    }

    /// Checks a signature of [`SecretKey::sign`] with the same prefix.
    ///
    /// # Errors
    /// As [`PublicKey::verify`].
    pub fn verify_as(
        &self,
        prefix: &[u8; 16],
        record: &SignatureRecord,
        root: &[u8; 32],
    ) -> Result<()> {
        let wrong = |cause| Err(Error::new(ErrorKind::Signature, cause));
        if record.public_key != self.0.to_bytes() {
            return wrong("the file is signed with another key");
        }
        let signature = Signature::from_bytes(&record.signature);
        match self.0.verify_strict(&message(prefix, root), &signature) {
            Ok(()) => Ok(()),
            Err(_) => wrong("the signature does not match: the signed tables were changed"),
        }
    }
}

fn message(prefix: &[u8; 16], root: &[u8; 32]) -> Vec<u8> {
    [&prefix[..], root].concat()
}

/// Reads a key file, which `of_pem` parses.
fn read<K>(path: &Path, kind: &str, of_pem: impl Fn(&str) -> Option<K>) -> Result<K> {
    let failed = |error| Error::io(path, "read the key", error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let read = file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(failed)?;
    let key = std::str::from_utf8(&bytes).ok().and_then(of_pem);
    key.ok_or_else(|| {
        let cause = format!("not an Ed25519 {kind} key in PEM");
        Error::new(ErrorKind::InvalidArgument, cause).of(path)
    })
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey of {:?}", self.public())
    }
}
