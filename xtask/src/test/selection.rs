//! Resolves the names of `cargo xtask test NAME…` to packages and filters.
//!
//! A name is a crate (`queue`), a suite (`units`, `blackbox`, `scenarios`), a scenario group or a part of one
//! (`jobsets/failure`), a module of the black-box tests (`kubectl_get`), or a part of the name of a test or scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The package with the black-box tests. Its library has unit tests.
pub const BLACK_BOX_PACKAGE: &str = "muster-tests";
/// The first part of scenario names: a directory of `tests`, or a module there that generates cases.
const SCENARIO_GROUPS: [&str; 9] =
    ["jobsets", "lives", "gangs", "queues", "trains", "differential", "corpus", "random", "placements"];
/// Directories with scenario files, in which scenario names are searched.
const SCENARIO_DIRS: [&str; 6] = ["scenarios", "lives", "jobsets", "gangs", "queues", "trains"];

/// The selected tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestSelection {
    /// Packages with filters; a package without filters runs all its tests.
    pub packages: BTreeMap<String, Vec<String>>,
    /// Filters of the black-box functions; `None` runs none of them.
    pub black_box: Option<Vec<String>>,
    /// Filters of the scenarios; `None` runs none of them.
    pub scenarios: Option<Vec<String>>,
}

impl TestSelection {
    /// Resolves names.
    ///
    /// # Errors
    ///
    /// A name matches nothing.
    pub fn of(names: &[String], root: &Path) -> Result<TestSelection, String> {
        let mut selection = TestSelection::default();
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
        } else if SCENARIO_GROUPS.contains(&first) {
            add_filter(&mut self.scenarios, name);
        } else if root.join("tests/tests").join(format!("{first}.rs")).exists() {
            add_filter(
                &mut self.black_box,
                if first == name { format!("{name}::") } else { name.to_owned() },
            );
        } else {
            return self.search(name, root);
        }
        Ok(())
    }

    /// Searches tests and scenarios for a part of their names.
    fn search(&mut self, name: &str, root: &Path) -> Result<(), String> {
        let mut found = false;
        let last = name.rsplit("::").next().unwrap_or(name);
        for package in packages(root) {
            let directory = directory_of(&package, root);
            if files(&directory, "rs").iter().any(|file| has_function(file, last)) {
                match self.packages.get_mut(&package) {
                    // All tests of the package are selected already.
                    Some(filters) if filters.is_empty() => {}
                    Some(filters) => filters.push(name.to_owned()),
                    None => drop(self.packages.insert(package, vec![name.to_owned()])),
                }
                found = true;
            }
        }
        if files(&root.join("tests/tests"), "rs").iter().any(|file| has_function(file, last)) {
            add_filter(&mut self.black_box, name);
            found = true;
        }
        let directories = SCENARIO_DIRS.iter().map(|directory| root.join("tests").join(directory));
        if directories.flat_map(|directory| files(&directory, "yaml")).any(|file| has_scenario(&file, name)) {
            add_filter(&mut self.scenarios, name.to_lowercase().replace([' ', '_'], "-"));
            found = true;
        }
        if found { Ok(()) } else { Err(format!("{name}: matches no crate, suite, scenario or test")) }
    }
}

/// Adds a filter to a suite, unless the whole suite is selected.
fn add_filter(suite: &mut Option<Vec<String>>, name: impl Into<String>) {
    match suite {
        Some(filters) if filters.is_empty() => {}
        Some(filters) => filters.push(name.into()),
        None => *suite = Some(vec![name.into()]),
    }
}

fn package_of(directory: &str) -> String {
    if directory == "muster" { directory.to_owned() } else { format!("muster-{directory}") }
}

fn directory_of(package: &str, root: &Path) -> PathBuf {
    match package {
        "xtask" | "codegen" => root.join(package),
        BLACK_BOX_PACKAGE => root.join("tests/src"),
        "muster-bench" => root.join("bench"),
        _ => root.join("crates").join(package.strip_prefix("muster-").unwrap_or(package)),
    }
}

/// Returns the packages with unit tests.
fn packages(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let crates = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    let mut all: Vec<String> = crates.map(|entry| package_of(&entry.file_name().to_string_lossy())).collect();
    all.extend(["xtask", "codegen", "muster-bench", BLACK_BOX_PACKAGE].map(str::to_owned));
    all.sort();
    all
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// Whether a file has a test whose name contains the text.
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

/// Whether a file has a scenario whose name contains the words, separated by spaces, dashes or underscores.
fn has_scenario(file: &Path, words: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.trim_start_matches("- ").strip_prefix("name: "));
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], " ");
    let words = plain(words);
    { names }.any(|name| plain(name).contains(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<TestSelection, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        TestSelection::of(&names, &xtask::process::root())
    }

    fn some(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn crates_suites_scenario_groups_and_modules_are_resolved() {
        let queue = of(&["queue"]).expect("a crate");
        assert_eq!(queue.packages.into_iter().collect::<Vec<_>>(), [("muster-queue".to_owned(), Vec::new())]);
        assert_eq!(of(&["muster-tree"]).expect("a package").packages.len(), 1);
        assert_eq!(of(&["jobsets/failure"]).expect("scenarios").scenarios, some(&["jobsets/failure"]));
        assert_eq!(of(&["kubectl_get"]).expect("a module").black_box, some(&["kubectl_get::"]));
        assert_eq!(of(&["scenarios", "jobsets"]).expect("all of them").scenarios, some(&[]));
        assert!(of(&["units"]).expect("all crates").packages.len() > 15);
    }

    #[test]
    fn a_part_of_a_test_name_selects_its_package() {
        let this = of(&["part_of_a_test_name_selects"]).expect("this test");
        assert_eq!(this.packages.keys().collect::<Vec<_>>(), ["xtask"]);
        assert_eq!((this.black_box, this.scenarios), (None, None));
        let both = of(&["xtask", "part_of_a_test_name_selects"]).expect("the crate and a test of it");
        assert_eq!(both.packages["xtask"], Vec::<String>::new(), "the whole package stays selected");
        let sentence = of(&["A failed TrainJob is deleted when its TTL expires"]).expect("a scenario");
        assert_eq!(sentence.scenarios, some(&["a-failed-trainjob-is-deleted-when-its-ttl-expires"]));
        assert!(of(&["no_such_test_anywhere_at_all"]).is_err_and(|why| why.contains("matches no crate")));
    }
}
