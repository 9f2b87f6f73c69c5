//! What `cargo xtask test NAME…` means by its names, and what has to be built for them.
//!
//! A name is a crate (`queue`), a suite (`units`, `blackbox`, `scenarios`), a dialect of scenarios or a part of one
//! (`jobsets/failure`), a module of the black-box tests (`kubectl_get`), or a part of the name of a test or scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The package whose executables talk to running servers; its library has unit tests like any other.
pub const BLACK_BOX_PACKAGE: &str = "muster-tests";
/// The first part of the names of scenarios; each is a folder or a source of cases of the package `muster-tests`.
const DIALECTS: [&str; 9] =
    ["jobsets", "lives", "gangs", "queues", "trains", "differential", "corpus", "random", "placements"];
/// Folders with scenarios, whose sentences are searched for a name that is nothing else.
const SCENARIOS: [&str; 6] = ["scenarios", "lives", "jobsets", "gangs", "queues", "trains"];

/// The tests that a command line selects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Packages, each with filters; all tests of it where there are none.
    pub packages: BTreeMap<String, Vec<String>>,
    /// Filters of the black-box functions; `None` when they are left out.
    pub black_box: Option<Vec<String>>,
    /// Filters of the scenarios; `None` when they are left out.
    pub scenarios: Option<Vec<String>>,
}

impl Selection {
    /// Finds out what the names mean.
    ///
    /// # Errors
    /// A name that means nothing.
    pub fn of(names: &[String], root: &Path) -> Result<Selection, String> {
        let mut selection = Selection::default();
        for name in names {
            selection.add(name, root)?;
        }
        Ok(selection)
    }

    fn add(&mut self, name: &str, root: &Path) -> Result<(), String> {
        let short = name.strip_prefix("muster-").unwrap_or(name);
        let first = name.split(['/', ':']).next().unwrap_or_default();
        if name == "units" {
            for package in packages(root) {
                self.packages.insert(package, Vec::new());
            }
        } else if name == "scenarios" {
            self.scenarios = Some(Vec::new());
        } else if name == "blackbox" {
            self.black_box = Some(Vec::new());
        } else if root.join("crates").join(short).join("Cargo.toml").exists() {
            self.packages.insert(package_of(short), Vec::new());
        } else if ["xtask", "codegen"].contains(&name) {
            self.packages.insert(name.to_owned(), Vec::new());
        } else if DIALECTS.contains(&first) {
            filter(&mut self.scenarios, name);
        } else if root.join("tests/tests").join(format!("{first}.rs")).exists() {
            filter(&mut self.black_box, if first == name { format!("{name}::") } else { name.to_owned() });
        } else {
            return self.search(name, root);
        }
        Ok(())
    }

    /// A name that is nothing else is a part of the name of tests or scenarios.
    fn search(&mut self, name: &str, root: &Path) -> Result<(), String> {
        let mut found = false;
        let last = name.rsplit("::").next().unwrap_or(name);
        for package in packages(root) {
            let folder = folder_of(&package, root);
            if files(&folder, "rs").iter().any(|file| has_function(file, last)) {
                match self.packages.get_mut(&package) {
                    // The whole crate is selected already.
                    Some(filters) if filters.is_empty() => {}
                    Some(filters) => filters.push(name.to_owned()),
                    None => drop(self.packages.insert(package, vec![name.to_owned()])),
                }
                found = true;
            }
        }
        if files(&root.join("tests/tests"), "rs").iter().any(|file| has_function(file, last)) {
            filter(&mut self.black_box, name);
            found = true;
        }
        let folders = SCENARIOS.iter().map(|folder| root.join("tests").join(folder));
        if folders.flat_map(|folder| files(&folder, "yaml")).any(|file| has_sentence(&file, name)) {
            filter(&mut self.scenarios, name.to_lowercase().replace([' ', '_'], "-"));
            found = true;
        }
        if found { Ok(()) } else { Err(format!("{name}: no crate, suite, scenario or test has this name")) }
    }
}

/// Adds a filter to a suite; one that is wanted whole stays so.
fn filter(suite: &mut Option<Vec<String>>, name: impl Into<String>) {
    match suite {
        Some(filters) if filters.is_empty() => {}
        Some(filters) => filters.push(name.into()),
        None => *suite = Some(vec![name.into()]),
    }
}

fn package_of(folder: &str) -> String {
    if folder == "muster" { folder.to_owned() } else { format!("muster-{folder}") }
}

fn folder_of(package: &str, root: &Path) -> PathBuf {
    match package {
        "xtask" | "codegen" => root.join(package),
        BLACK_BOX_PACKAGE => root.join("tests/src"),
        "muster-bench" => root.join("bench"),
        _ => root.join("crates").join(package.strip_prefix("muster-").unwrap_or(package)),
    }
}

/// The packages with unit tests.
fn packages(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let crates = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    let mut all: Vec<String> = crates.map(|entry| package_of(&entry.file_name().to_string_lossy())).collect();
    all.extend(["xtask", "codegen", "muster-bench", BLACK_BOX_PACKAGE].map(str::to_owned));
    all.sort();
    all
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// Whether a test in this file has the word in its name.
fn has_function(file: &Path, word: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut above_function = false;
    text.lines().map(str::trim).any(|line| {
        let is_test = above_function;
        above_function = line == "#[test]" || above_function && line.starts_with("#[");
        let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|it| it.split('(').next());
        is_test && name.is_some_and(|name| name.contains(word))
    })
}

/// Whether a scenario in this file has the words in its name, written with spaces or with dashes.
fn has_sentence(file: &Path, words: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.trim_start_matches("- ").strip_prefix("name: "));
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], " ");
    let words = plain(words);
    { names }.any(|name| plain(name).contains(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Selection, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::of(&names, &xtask::process::root())
    }

    fn some(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn crates_suites_dialects_and_modules_are_known_by_name() {
        let queue = of(&["queue"]).expect("a crate");
        assert_eq!(queue.packages.into_iter().collect::<Vec<_>>(), [("muster-queue".to_owned(), Vec::new())]);
        assert_eq!(of(&["muster-tree"]).expect("a package").packages.len(), 1);
        assert_eq!(of(&["jobsets/failure"]).expect("scenarios").scenarios, some(&["jobsets/failure"]));
        assert_eq!(of(&["kubectl_get"]).expect("a module").black_box, some(&["kubectl_get::"]));
        assert_eq!(of(&["scenarios", "jobsets"]).expect("all of them").scenarios, some(&[]));
        assert!(of(&["units"]).expect("all crates").packages.len() > 15);
    }

    #[test]
    fn a_part_of_a_name_finds_the_crates_that_have_it() {
        let this = of(&["finds_the_crates_that_have_it"]).expect("it is this one");
        assert_eq!(this.packages.keys().collect::<Vec<_>>(), ["xtask"]);
        assert_eq!((this.black_box, this.scenarios), (None, None));
        let both = of(&["xtask", "finds_the_crates_that_have_it"]).expect("the crate and a test of it");
        assert_eq!(both.packages["xtask"], Vec::<String>::new(), "the whole crate stays selected");
        let sentence = of(&["A failed TrainJob goes as well"]).expect("a scenario");
        assert_eq!(sentence.scenarios, some(&["a-failed-trainjob-goes-as-well"]));
        assert!(of(&["no_such_test_anywhere_at_all"]).is_err_and(|why| why.contains("no crate, suite")));
    }
}
