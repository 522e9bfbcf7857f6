// Finds libreprise and libreprise_nn, in this order:
//
//   REPRISE_LIB_DIR=DIR   the folder of the shared libraries, such as the build folder of CMake
//   pkg-config            an installed library
//   CMake                 builds both from the sources three folders up; REPRISE_CUDA=ON or OFF selects the CUDA build
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["REPRISE_LIB_DIR", "REPRISE_CUDA", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    if let Some(dir) = env::var_os("REPRISE_LIB_DIR").map(PathBuf::from).or_else(from_pkg_config).or_else(from_cmake) {
        let dir = dir.canonicalize().unwrap_or(dir);
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:lib_dir={}", dir.display());
    }
    println!("cargo:rustc-link-lib=dylib=reprise");
    println!("cargo:rustc-link-lib=dylib=reprise_nn");
}

fn from_pkg_config() -> Option<PathBuf> {
    let out = Command::new("pkg-config").args(["--variable=libdir", "reprise_nn"]).output().ok()?;
    let dir = String::from_utf8(out.stdout).ok()?;
    if out.status.success() && !dir.trim().is_empty() {
        Some(PathBuf::from(dir.trim()))
    } else {
        None
    }
}

/// None outside of the source tree: the linker then looks where it always does.
fn from_cmake() -> Option<PathBuf> {
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../../..");
    if !source.join("include/reprise/reprise.h").exists() {
        return None;
    }
    let build = PathBuf::from(env::var_os("OUT_DIR")?).join("cmake");
    let cuda = env::var("REPRISE_CUDA").unwrap_or_else(|_| "ON".to_string());
    let configure = Command::new("cmake")
        .arg("-S")
        .arg(&source)
        .arg("-B")
        .arg(&build)
        .args(["-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release", "-DRP_TESTS=OFF"])
        .arg(format!("-DRP_CUDA={}", cuda))
        .status();
    assert!(matches!(configure, Ok(s) if s.success()), "cmake could not configure {}", source.display());
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "2".to_string());
    let built = Command::new("cmake")
        .arg("--build")
        .arg(&build)
        .args(["--target", "reprise", "reprise_nn", "-j", &jobs])
        .status();
    assert!(matches!(built, Ok(s) if s.success()), "cmake could not build {}", source.display());
    Some(build)
}
