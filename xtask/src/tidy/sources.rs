//! Reads the packages of the workspace from a directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::scan::{FileFacts, scan};

/// Packages that are no part of the product, by their directory.
const TOOLING: [&str; 4] = ["tests", "bench", "xtask", "codegen"];

/// A package and its files without those of tests.
#[derive(Debug)]
pub struct ScannedPackage {
    /// The name of its directory.
    pub name: String,
    /// Whether it is one of `crates/*`.
    pub product: bool,
    pub files: Vec<ScannedFile>,
}

#[derive(Debug)]
pub struct ScannedFile {
    /// The path below the root of the workspace.
    pub path: PathBuf,
    pub facts: FileFacts,
}

/// Scans all packages: the product's in the order of their names, then the others.
pub fn packages(root: &Path) -> Result<Vec<ScannedPackage>, String> {
    let mut names = Vec::new();
    for path in entries(&root.join("crates"))?.into_iter().filter(|it| it.join("Cargo.toml").exists()) {
        names.extend(path.file_name().map(|it| it.to_string_lossy().into_owned()));
    }
    let product = names.into_iter().map(|name| (format!("crates/{name}"), name, true));
    let tooling = TOOLING.iter().map(|it| (it.to_string(), it.to_string(), false));
    let package = |(directory, name, product): (String, _, _)| {
        Ok(ScannedPackage { name, product, files: files(root, Path::new(&directory))? })
    };
    product.chain(tooling).map(package).collect()
}

fn files(root: &Path, directory: &Path) -> Result<Vec<ScannedFile>, String> {
    let mut files = Vec::new();
    for path in rust_files(&root.join(directory))? {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        files.push(ScannedFile { path, facts: scan(&text) });
    }
    let of_tests: BTreeSet<PathBuf> = files.iter().flat_map(test_modules).collect();
    files.retain(|file| !file.path.ancestors().any(|it| of_tests.contains(&it.with_extension(""))));
    Ok(files)
}

/// Returns the files below a directory, in the order of their paths; a directory `tests` is left out.
fn rust_files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in entries(directory)? {
        match path.is_dir() {
            true if path.file_name().is_some_and(|it| it == "tests") => {}
            true => found.extend(rust_files(&path)?),
            false => found.extend(path.extension().is_some_and(|it| it == "rs").then_some(path)),
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", directory.display());
    let entries = fs::read_dir(directory).map_err(wrong)?;
    let mut paths = entries.map(|it| it.map(|it| it.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    paths.sort();
    Ok(paths)
}

/// Returns the paths, without extension, of the test modules that a file declares: each is a file, a directory, or both.
fn test_modules(file: &ScannedFile) -> Vec<PathBuf> {
    let parent = file.path.parent().unwrap_or(Path::new(""));
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|it| file.path.ends_with(it));
    let below = if is_root { parent.to_path_buf() } else { file.path.with_extension("") };
    let path = |(name, path): &(String, Option<String>)| match path {
        Some(path) => parent.join(path).with_extension(""),
        None => below.join(name),
    };
    file.facts.test_modules.iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_found_where_the_compiler_looks_for_them() {
        let cases = [
            ("a/src/lib.rs", "#[cfg(test)] mod tests;", "a/src/tests"),
            ("a/src/b/mod.rs", "#[cfg(test)] mod tests;", "a/src/b/tests"),
            ("a/src/b.rs", "#[cfg(test)] mod tests;", "a/src/b/tests"),
            ("a/src/b.rs", "#[cfg(test)] #[path = \"c/d.rs\"] mod tests;", "a/src/c/d"),
        ];
        for (path, text, want) in cases {
            let file = ScannedFile { path: PathBuf::from(path), facts: scan(text) };
            assert_eq!(test_modules(&file), [PathBuf::from(want)], "{path}: {text}");
        }
    }

    #[test]
    fn this_package_is_read_without_its_tests() {
        let files = files(&xtask::process::root(), Path::new("xtask")).expect("the package can be read");
        let has = |path: &str| files.iter().any(|it| it.path == Path::new(path));
        assert!(has("xtask/src/tidy/sources.rs") && !has("xtask/tests/tidy.rs"));
    }
}
