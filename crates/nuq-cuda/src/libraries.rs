//! Search for the libraries of CUDA.
//!
//! The search covers the folders of the system's loader, of the variable `NUQ_CUDA_LIBRARIES`, of the CUDA toolkit, and of the Python
//! packages `nvidia-*` that PyTorch installs.

use std::path::{Path, PathBuf};

use libloading::Library;

use crate::Error;

/// A library of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name without prefix and suffix.
    pub(crate) stem: &'static str,
    /// The name in messages.
    pub(crate) title: &'static str,
    /// The Python package that contains it.
    pub(crate) package: &'static str,
    /// The folder of the Python package under `nvidia`, before CUDA 13.
    folder: &'static str,
    /// The part of the file name on Windows between the major version and `.dll`.
    dll_suffix: &'static str,
}

pub(crate) const NVRTC: Name = Name {
    stem: "nvrtc",
    title: "NVRTC",
    package: "nvidia-cuda-nvrtc",
    folder: "cuda_nvrtc",
    dll_suffix: "0_0",
};
pub(crate) const CUBLAS: Name =
    Name { stem: "cublas", title: "cuBLAS", package: "nvidia-cublas", folder: "cublas", dll_suffix: "" };

/// Major versions of CUDA, newest first.
const MAJORS: [u32; 2] = [13, 12];

/// The variable with additional folders, separated as in `PATH`.
pub(crate) const FOLDERS_VARIABLE: &str = "NUQ_CUDA_LIBRARIES";

impl Name {
    /// File names, most specific first.
    fn files(self) -> Vec<String> {
        let stem = self.stem;
        if cfg!(windows) {
            let numbered = MAJORS.iter().map(|major| format!("{stem}64_{major}{}.dll", self.dll_suffix));
            numbered.collect()
        } else {
            let numbered = MAJORS.iter().map(|major| format!("lib{stem}.so.{major}"));
            numbered.chain([format!("lib{stem}.so")]).collect()
        }
    }

    /// Opens the library. The system's loader looks for its name first; if the loader does not find it, `folders` are searched. The library
    /// stays loaded.
    ///
    /// # Errors
    /// [`Error::NoLibrary`] when it is in none of these places.
    pub(crate) fn open(self, folders: &[PathBuf]) -> Result<&'static Library, Error> {
        let files = self.files();
        let in_folders = folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file)));
        let by_name = files.iter().map(PathBuf::from);
        for path in by_name.chain(in_folders.filter(|path| path.is_file())) {
            // SAFETY: the initialization routines of NVIDIA's libraries have no requirements.
            if let Ok(library) = unsafe { Library::new(&path) } {
                return Ok(Box::leak(Box::new(library)));
            }
        }
        Err(Error::NoLibrary { library: self.title, package: self.package })
    }

    /// Looks up a function in the open library.
    ///
    /// # Errors
    /// [`Error::BadLibrary`] when it is missing.
    ///
    /// # Safety
    /// `F` is the type of the function in NVIDIA's header.
    pub(crate) unsafe fn function<F: Copy>(
        self,
        library: &'static Library,
        function: &str,
    ) -> Result<F, Error> {
        let bad = |e: libloading::Error| Error::BadLibrary { library: self.title, problem: e.to_string() };
        // SAFETY: the caller guarantees the type.
        unsafe { library.get::<F>(function.as_bytes()) }.map(|found| *found).map_err(bad)
    }

    /// The folders outside the loader's path in which the library may be.
    pub(crate) fn folders(self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        if let Some(given) = std::env::var_os(FOLDERS_VARIABLE) {
            folders.extend(std::env::split_paths(&given));
        }
        for variable in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = std::env::var_os(variable) {
                let home = PathBuf::from(home);
                folders.extend(["lib64", "lib", "bin"].map(|sub| home.join(sub)));
            }
        }
        folders.push(PathBuf::from("/usr/local/cuda/lib64"));
        for environment in python_environments() {
            folders.extend(self.folders_in_environment(&environment));
        }
        folders
    }

    /// The folders of the packages `nvidia-*` in a Python environment.
    fn folders_in_environment(self, environment: &Path) -> Vec<PathBuf> {
        let mut packages = vec![environment.join("Lib").join("site-packages")];
        if let Ok(entries) = std::fs::read_dir(environment.join("lib")) {
            let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            pythons.sort();
            packages.extend(pythons.iter().map(|python| python.join("site-packages")));
        }
        let sub = if cfg!(windows) { "bin" } else { "lib" };
        let newest = MAJORS.map(|major| format!("cu{major}"));
        let names = newest.iter().map(String::as_str).chain([self.folder]);
        let names: Vec<&str> = names.collect();
        packages
            .iter()
            .flat_map(|packages| names.iter().map(|name| packages.join("nvidia").join(name).join(sub)))
            .collect()
    }
}

/// The folders of Python environments: the active environments, the environment of this program if it is a Python interpreter, and the
/// environment of the first `python3` in `PATH`.
fn python_environments() -> Vec<PathBuf> {
    let mut environments: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    if let Ok(program) = std::env::current_exe()
        && let Some(folder) = program.parent()
    {
        environments.extend(environments_of(folder, cfg!(windows)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = if cfg!(windows) { "python.exe" } else { "python3" };
    let found = std::env::split_paths(&path).find(|folder| folder.join(python).is_file());
    environments.extend(found.iter().flat_map(|folder| environments_of(folder, cfg!(windows))));
    environments
}

/// The environments to which a Python interpreter in `folder` may belong. An interpreter is in a folder of its environment, such as
/// `bin`. On Windows, an interpreter outside of virtual environments is directly in the folder of its environment.
fn environments_of(folder: &Path, is_windows: bool) -> Vec<PathBuf> {
    folder.parent().into_iter().chain(is_windows.then_some(folder)).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_a_typed_error_with_its_package() {
        let missing = Name { stem: "no-such-library", ..NVRTC };
        let error = missing.open(&[PathBuf::from("/nonexistent")]).unwrap_err();
        assert_eq!(error, Error::NoLibrary { library: "NVRTC", package: "nvidia-cuda-nvrtc" });
        assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc"), "{error}");
    }

    #[test]
    fn on_windows_the_folder_of_an_interpreter_may_be_its_environment() {
        let folder = Path::new("python").join("bin");
        assert_eq!(environments_of(&folder, false), [Path::new("python")]);
        assert_eq!(environments_of(&folder, true), [Path::new("python"), folder.as_path()]);
    }

    #[cfg(unix)]
    #[test]
    fn folders_of_python_packages_are_searched() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.12/site-packages/nvidia");
        let expected = [packages.join("cu13/lib"), packages.join("cublas/lib")];
        std::fs::create_dir_all(&expected[0]).unwrap();
        let folders = CUBLAS.folders_in_environment(folder.path());
        assert!(expected.iter().all(|path| folders.contains(path)), "{folders:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_no_library_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let name = Name { stem: "no-such-library", ..CUBLAS };
        std::fs::write(folder.path().join("libno-such-library.so.12"), b"text").unwrap();
        assert!(matches!(name.open(&[folder.path().to_owned()]), Err(Error::NoLibrary { .. })));
    }
}
