// Finds libreprise and libreprise_nn, in this order:
//
//   REPRISE_LIB_DIR=DIR   the folder of the shared libraries, such as the build folder of CMake
//   pkg-config            an installed library
//   CMake                 builds both from the sources three folders up, as one archive that is linked statically;
//                         REPRISE_CUDA=ON or OFF selects the CUDA build
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["REPRISE_LIB_DIR", "REPRISE_CUDA", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    if let Some(dir) = env::var_os("REPRISE_LIB_DIR").map(PathBuf::from).or_else(from_pkg_config) {
        link_shared(&dir.canonicalize().unwrap_or(dir));
    } else if let Some(build) = from_cmake() {
        link_archive(&build);
    } else {
        panic!(
            "libreprise was not found: install it, or set REPRISE_LIB_DIR to a folder with libreprise.so and \
             libreprise_nn.so, or use the crate from its source tree"
        );
    }
}

fn link_shared(dir: &Path) {
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:lib_dir={}", dir.display());
    println!("cargo:rustc-link-lib=dylib=reprise");
    println!("cargo:rustc-link-lib=dylib=reprise_nn");
}

/// Links the archive of cmake/whole.cmake and what reprise_whole.link lists.
fn link_archive(build: &Path) {
    let list = build.join("reprise_whole.link");
    let text = fs::read_to_string(&list).unwrap_or_else(|e| panic!("{}: {}", list.display(), e));
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once('=') {
            Some(("search", dir)) => println!("cargo:rustc-link-search=native={}", dir),
            Some((kind, name)) => println!("cargo:rustc-link-lib={}={}", kind, name),
            None => panic!("{}: the line {:?} is not KIND=VALUE", list.display(), line),
        }
    }
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

/// None outside of the source tree. The sources are watched, so that a change of them builds again.
fn from_cmake() -> Option<PathBuf> {
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../../..").canonicalize().ok()?;
    if !source.join("include/reprise/reprise.h").exists() {
        return None;
    }
    for folder in ["base", "cmake", "executor", "fallback", "graph", "include", "kernels", "model", "nn", "train"] {
        println!("cargo:rerun-if-changed={}", source.join(folder).display());
    }
    let build = PathBuf::from(env::var_os("OUT_DIR")?).join("cmake");
    let cuda = env::var("REPRISE_CUDA").unwrap_or_else(|_| "ON".to_string());
    let configure = Command::new("cmake")
        .arg("-S")
        .arg(&source)
        .arg("-B")
        .arg(&build)
        .args(["-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release", "-DRP_TESTS=OFF", "-DRP_PROGRAM=OFF", "-DRP_BLAS=off"])
        .arg(format!("-DRP_CUDA={}", cuda))
        .status();
    assert!(matches!(configure, Ok(s) if s.success()), "cmake could not configure {}", source.display());
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "2".to_string());
    let built = Command::new("cmake").arg("--build").arg(&build).args(["--target", "reprise_whole", "-j", &jobs]).status();
    assert!(matches!(built, Ok(s) if s.success()), "cmake could not build {}", source.display());
    Some(build)
}
