//! Names the shared library inside itself: programs look for `libmillstream.so.1`, and before 1.0,
//! where a minor version may break, for `libmillstream.so.0.MINOR`.

fn main() {
    let version = |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}"));
    let (major, minor) = (version("MAJOR"), version("MINOR"));
    let number = match (major.as_deref(), minor.as_deref()) {
        (Ok("0"), Ok(minor)) => format!("0.{minor}"),
        (Ok(major), _) => major.to_owned(),
        _ => return,
    };
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmillstream.so.{number}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
