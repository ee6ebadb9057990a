//! Versions of the rivals out of the lock file, and SDL 3 built from source.
//!
//! SDL decides once for a process whether it reads with io_uring or with threads, so there are two
//! copies of the library, loaded at run time, each with its own state. The copy for threads looks
//! for a ring's library under a name that nothing has. What cannot be built (no CMake, no C
//! compiler, no header of liburing) is no failure of this build: the rival says at run time what
//! was missing.

use std::path::PathBuf;

/// Crates whose version is shown.
const CRATES: [&str; 4] = ["tokio", "compio", "rayon", "memmap2"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=native/liburing_ffi.c");
    versions();
    #[cfg(feature = "sdl")]
    sdl::build();
}

/// The lock file lies in a folder above: this crate is part of a workspace.
fn versions() {
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let lock = folder.ancestors().map(|at| at.join("Cargo.lock"));
    let lock = lock.into_iter().find(|path| path.exists());
    if let Some(path) = &lock {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let text = lock.and_then(|path| std::fs::read_to_string(path).ok());
    let text = text.unwrap_or_default();
    for name in CRATES {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let version = text
            .split_once(&entry)
            .and_then(|(_, rest)| rest.split('"').next());
        let variable = name.to_uppercase();
        let version = version.unwrap_or("of an unknown version");
        println!("cargo:rustc-env=VERSION_{variable}={version}");
    }
}

#[cfg(feature = "sdl")]
mod sdl {
    use std::panic::catch_unwind;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Everything that has nothing to do with files is left out.
    const OFF: [&str; 22] = [
        "SDL_AUDIO",
        "SDL_CAMERA",
        "SDL_DBUS",
        "SDL_DIALOG",
        "SDL_EXAMPLES",
        "SDL_GPU",
        "SDL_HAPTIC",
        "SDL_HIDAPI",
        "SDL_IBUS",
        "SDL_INSTALL",
        "SDL_JOYSTICK",
        "SDL_LIBUDEV",
        "SDL_OPENGL",
        "SDL_OPENGLES",
        "SDL_POWER",
        "SDL_RENDER",
        "SDL_SENSOR",
        "SDL_STATIC",
        "SDL_TEST_LIBRARY",
        "SDL_TRAY",
        "SDL_VIDEO",
        "SDL_VULKAN",
    ];

    /// What SDL looks for to have a ring, and a name of the same length that no library has.
    const RING_LIBRARY: &[u8] = b"liburing-ffi.so.2";
    const NO_LIBRARY: &[u8] = b"liburing-ffi.none";

    pub(crate) fn build() {
        let out = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
        println!("cargo:rustc-env=VERSION_SDL={}", sdl3_src::VERSION);
        let library = library(&out.join("sdl"));
        let threads = library.clone().and_then(|path| without_ring(&path, &out));
        tell("SDL_THREADS", threads);
        tell("SDL_RING", library);
        tell("LIBURING_FFI", liburing_ffi(&out));
    }

    /// A copy that finds no library for a ring, as on a machine that has none.
    fn without_ring(library: &Path, out: &Path) -> Result<PathBuf, String> {
        let mut bytes = std::fs::read(library).map_err(|error| error.to_string())?;
        let last = bytes.len().saturating_sub(RING_LIBRARY.len());
        for at in 0..last {
            if bytes[at..].starts_with(RING_LIBRARY) {
                bytes[at..at + NO_LIBRARY.len()].copy_from_slice(NO_LIBRARY);
            }
        }
        let path = out.join("libSDL3-threads.so");
        std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// A path, or why there is none, for the program.
    fn tell(name: &str, result: Result<PathBuf, String>) {
        let (path, why) = match result {
            Ok(path) => (path.display().to_string(), String::new()),
            Err(why) => (String::new(), why.replace('\n', " ")),
        };
        println!("cargo:rustc-env={name}_PATH={path}");
        println!("cargo:rustc-env={name}_WHY={why}");
    }

    fn library(folder: &Path) -> Result<PathBuf, String> {
        let cmake = std::env::var("CMAKE").unwrap_or_else(|_| "cmake".into());
        Command::new(cmake)
            .arg("--version")
            .output()
            .map_err(|error| format!("built without CMake: {error}"))?;
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        // The crate cmake panics where CMake fails; its output is then in the build's log.
        let built = catch_unwind(|| {
            let mut config = cmake::Config::new(sdl3_src::SOURCE_DIR);
            config
                .out_dir(folder)
                .profile("Release")
                .build_target("SDL3-shared");
            config
                .define("SDL_SHARED", "ON")
                .define("SDL_UNIX_CONSOLE_BUILD", "ON");
            for name in OFF {
                config.define(name, "OFF");
            }
            config.build()
        });
        built.map_err(|_| "SDL did not build; see the build's output".to_owned())?;
        let path = folder.join("build/libSDL3.so.0");
        if path.exists() {
            Ok(path)
        } else {
            Err(format!("SDL's build made no {}", path.display()))
        }
    }

    /// liburing before 2.4 has no library of the functions that are inline in its header.
    fn liburing_ffi(out: &Path) -> Result<PathBuf, String> {
        let path = out.join("liburing-ffi.so.2");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(compiler)
            .args([
                "-O2",
                "-fPIC",
                "-shared",
                "-Wl,-soname,liburing-ffi.so.2",
                "-o",
            ])
            .arg(&path)
            .args(["native/liburing_ffi.c", "-Wl,--no-as-needed", "-luring"])
            .output()
            .map_err(|error| format!("no C compiler: {error}"))?;
        if output.status.success() {
            Ok(path)
        } else {
            Err("liburing-dev is not installed".into())
        }
    }
}
