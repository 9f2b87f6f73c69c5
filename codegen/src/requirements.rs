//! `cargo xtask requirements`: reports which requirements of `docs/requirements` are covered by a test.
//!
//! An id is defined in the docs as `- **572-01** …`. A scenario references it with `shows: [572-01]`, a Rust test with a line
//! `/// Shows: 572-01, 572-02.` above its `#[test]`, or above a function of `tests/src/suite`, which builds the cases of the scenario
//! harness. An unknown or duplicate id is an error, so that a typo does not count as coverage.
//!
//! # Deliberately absent
//!
//! Whether the test really covers it. That is for review.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use muster_tree::{Tree, tree};

use xtask::process;

const DOCS: &str = "docs/requirements";
/// Directories with scenarios.
const SCENARIOS: [&str; 6] =
    ["tests/scenarios", "tests/lives", "tests/jobsets", "tests/gangs", "tests/queues", "tests/trains"];
/// Directories with Rust tests.
const SOURCES: [&str; 5] = ["crates", "tests", "bench", "xtask", "codegen"];
/// Directory whose functions are tests without `#[test]`.
const SUITE: &str = "tests/src/suite/";
/// Prefix of the ids above a Rust test.
const SHOWS: &str = "/// Shows: ";
/// Mark of a requirement that the KEP defers.
const LATER: &str = "(later)";

/// A requirement in the docs.
#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    id: String,
    later: bool,
}

/// A reference to an id, with the file and the line or scenario.
#[derive(Debug, PartialEq, Eq)]
struct RequirementRef {
    id: String,
    place: String,
}

#[derive(Debug)]
struct RequirementFile {
    file: String,
    ids: Vec<Requirement>,
}

pub fn task(args: &[String]) -> Result<(), String> {
    let json = match args {
        [] => false,
        [flag, form] if flag == "-o" && form == "json" => true,
        _ => return Err("takes nothing, or `-o json`".to_owned()),
    };
    let root = process::root();
    let files = read_docs(&root)?;
    let named = read_tests(&root)?;
    let problems = check(&files, &named);
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let named: BTreeSet<&str> = named.iter().map(|n| n.id.as_str()).collect();
    print(&if json { as_json(&files, &named) } else { as_text(&files, &named) });
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the counts are the result of this task")]
fn print(text: &str) {
    println!("{text}");
}

fn read_docs(root: &Path) -> Result<Vec<RequirementFile>, String> {
    let mut files = Vec::new();
    for path in files_under(&root.join(DOCS), "md")? {
        let ids: Vec<Requirement> = read(&path)?.lines().filter_map(requirement).collect();
        if !ids.is_empty() {
            files.push(RequirementFile { file: short(root, &path), ids });
        }
    }
    // Numeric order: 976 before 2899.
    files.sort_by_key(|f| proposal(&f.ids[0].id));
    Ok(files)
}

fn read_tests(root: &Path) -> Result<Vec<RequirementRef>, String> {
    let mut named = Vec::new();
    for folder in SCENARIOS {
        for path in files_under(&root.join(folder), "yaml")? {
            named.extend(of_scenarios(&read(&path)?, &short(root, &path))?);
        }
    }
    for folder in SOURCES {
        for path in files_under(&root.join(folder), "rs")? {
            named.extend(of_rust(&read(&path)?, &short(root, &path))?);
        }
    }
    Ok(named)
}

/// Parses `- **572-01** (mark) sentence`.
fn requirement(line: &str) -> Option<Requirement> {
    let (id, rest) = line.strip_prefix("- **")?.split_once("** ")?;
    is_id(id).then(|| Requirement { id: id.to_owned(), later: rest.starts_with(LATER) })
}

/// Returns the ids that the scenarios of a file reference.
fn of_scenarios(text: &str, file: &str) -> Result<Vec<RequirementRef>, String> {
    let documents = Tree::parse_yaml_documents(text).map_err(|e| format!("{file}: {e}"))?;
    let mut named = Vec::new();
    for document in &documents {
        let place = format!("{file}: {}", document.str_at(&["name"]));
        let Some(shows) = document.get("shows") else { continue };
        if !shows.is_list() {
            return Err(format!("{place}: shows is not a list"));
        }
        for id in shows.items() {
            let id = id.as_str().ok_or_else(|| format!("{place}: shows {id}: not an id"))?;
            named.push(RequirementRef { id: id.to_owned(), place: place.clone() });
        }
    }
    Ok(named)
}

/// Returns the ids above the tests of a Rust file.
fn of_rust(text: &str, file: &str) -> Result<Vec<RequirementRef>, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut named = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(ids) = line.strip_prefix(SHOWS) else { continue };
        let place = format!("{file}:{}", at + 1);
        let above_an_item = |line: &&&str| line.starts_with("///") || line.starts_with("#[");
        let is_test = lines[at..].iter().take_while(above_an_item).any(|line| line.ends_with("test]"));
        let below = lines[at..].iter().find(|line| !above_an_item(line));
        let is_of_suite = file.starts_with(SUITE) && below.is_some_and(|line| line.contains("fn "));
        if !is_test && !is_of_suite {
            return Err(format!("{place}: ids must be above a test"));
        }
        let ids = ids.trim_end_matches('.').split(", ");
        named.extend(ids.map(|id| RequirementRef { id: id.to_owned(), place: place.clone() }));
    }
    Ok(named)
}

/// Returns the problems: duplicate ids, and references to unknown ids.
fn check(files: &[RequirementFile], named: &[RequirementRef]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, id) in files.iter().flat_map(|f| f.ids.iter().map(|r| (f.file.as_str(), r.id.as_str()))) {
        if let Some(other) = seen.insert(id, file) {
            problems.push(format!("{file}: {id} is already in {other}"));
        }
    }
    let unknown = named.iter().filter(|n| !seen.contains_key(n.id.as_str()));
    problems.extend(unknown.map(|n| format!("{}: {}: no file of {DOCS} has this id", n.place, n.id)));
    problems
}

/// Returns the ids without a test, except for deferred ones.
fn missing<'a>(file: &'a RequirementFile, named: &BTreeSet<&str>) -> Vec<&'a str> {
    let due = file.ids.iter().filter(|r| !r.later && !named.contains(r.id.as_str()));
    due.map(|r| r.id.as_str()).collect()
}

fn count(file: &RequirementFile, named: &BTreeSet<&str>) -> usize {
    file.ids.iter().filter(|r| named.contains(r.id.as_str())).count()
}

fn as_text(files: &[RequirementFile], named: &BTreeSet<&str>) -> String {
    let mut lines = vec![format!("{:<46} {:>6} {:>6} {:>6}", "file", "ids", "named", "later")];
    for file in files {
        let later = file.ids.iter().filter(|r| r.later).count();
        let (ids, named) = (file.ids.len(), count(file, named));
        lines.push(format!("{:<46} {ids:>6} {named:>6} {later:>6}", file.file));
    }
    let (ids, total) = (files.iter().map(|f| f.ids.len()), files.iter().map(|f| count(f, named)));
    lines.push(format!("{:<46} {:>6} {:>6}", "all", ids.sum::<usize>(), total.sum::<usize>()));
    for file in files {
        let missing = missing(file, named);
        if !missing.is_empty() {
            lines.push(format!("\n{}: no test names\n  {}", file.file, missing.join(" ")));
        }
    }
    lines.join("\n")
}

fn as_json(files: &[RequirementFile], named: &BTreeSet<&str>) -> String {
    let files = files.iter().map(|file| {
        let later = file.ids.iter().filter(|r| r.later).map(|r| Tree::from(r.id.as_str()));
        let missing = missing(file, named).into_iter().map(Tree::from);
        tree!({
            "file": file.file.clone(), "ids": file.ids.len() as i64, "named": count(file, named) as i64,
            "later": Tree::list(later), "missing": Tree::list(missing),
        })
    });
    Tree::list(files).to_string()
}

/// Whether the text is two numbers with a dash between them.
fn is_id(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('-').is_some_and(|(proposal, n)| number(proposal) && number(n))
}

fn proposal(id: &str) -> u32 {
    id.split('-').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns all files with this extension below a directory, sorted, without `target`.
fn files_under(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn short(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(named: &[RequirementRef]) -> Vec<&str> {
        named.iter().map(|n| n.id.as_str()).collect()
    }

    fn counted(ids: &[(&str, bool)]) -> RequirementFile {
        let ids = ids.iter().map(|(id, later)| Requirement { id: (*id).to_owned(), later: *later });
        RequirementFile { file: "a.md".to_owned(), ids: ids.collect() }
    }

    #[test]
    fn lines_of_the_docs() {
        let cases = [
            ("- **572-01** It is optional — none is sent.", Some(("572-01", false))),
            ("- **5832-70** (later) Parent groups.", Some(("5832-70", true))),
            ("- **976-07** (decided) No configuration.", Some(("976-07", false))),
            ("- **not an id** at all", None),
            ("Marks: **(later)** the proposal defers it", None),
            ("  - **572-01** deeper", None),
        ];
        for (line, want) in cases {
            let want = want.map(|(id, later)| Requirement { id: id.to_owned(), later });
            assert_eq!(requirement(line), want, "{line}");
        }
    }

    #[test]
    fn scenarios_name_ids_in_a_list() {
        let text = "name: a\nshows: [572-01, 976-02]\nsteps: []\n---\nname: b\nsteps: []\n---\nname: c\nshows: [2899-10]\n";
        assert_eq!(
            ids(&of_scenarios(text, "f").expect("it is well-formed")),
            ["572-01", "976-02", "2899-10"]
        );
        let word = of_scenarios("name: a\nshows: 572-01\n", "f").expect_err("a word is no list");
        assert_eq!(word, "f: a: shows is not a list");
    }

    #[test]
    fn rust_tests_name_ids_in_their_documentation() {
        let shows = SHOWS;
        let text = format!("    {shows}572-01, 572-02.\n    #[test]\n    fn a() {{}}\n");
        assert_eq!(ids(&of_rust(&text, "f").expect("above a test")), ["572-01", "572-02"]);
        let text = format!("{shows}976-01.\n/// More.\n#[ignore]\n#[tokio::test]\nasync fn b() {{}}\n");
        assert_eq!(ids(&of_rust(&text, "f").expect("above a test")), ["976-01"]);
        let text = format!("{shows}976-01.\nfn helper() {{}}\n#[test]\nfn c() {{}}\n");
        assert!(of_rust(&text, "f").expect_err("a helper is no test").starts_with("f:1:"));
        let suite = format!("{SUITE}f.rs");
        assert_eq!(ids(&of_rust(&text, &suite).expect("a test of the harness")), ["976-01"]);
        let text = format!("{shows}976-01.\nconst C: u8 = 1;\n");
        assert!(of_rust(&text, &suite).is_err());
    }

    #[test]
    fn ids_are_unique_and_references_exist() {
        let naming = |id: &str| RequirementRef { id: id.to_owned(), place: "t.rs:1".to_owned() };
        let files = [counted(&[("572-01", false), ("572-02", false)])];
        assert_eq!(check(&files, &[naming("572-02")]), Vec::<String>::new());
        assert_eq!(
            check(&files, &[naming("572-2")]),
            ["t.rs:1: 572-2: no file of docs/requirements has this id"]
        );
        let twice = [counted(&[("572-01", false)]), counted(&[("572-01", false)])];
        assert_eq!(check(&twice, &[]), ["a.md: 572-01 is already in a.md"]);
    }

    #[test]
    fn deferred_requirements_are_not_missing() {
        let file = counted(&[("572-01", false), ("572-02", true), ("572-03", false)]);
        assert_eq!(missing(&file, &BTreeSet::from(["572-01"])), ["572-03"]);
    }

    #[test]
    fn the_docs_and_the_tests_agree() {
        let root = process::root();
        let files = read_docs(&root).expect("the docs can be read");
        assert_eq!(check(&files, &read_tests(&root).expect("the tests can be read")), Vec::<String>::new());
        assert_eq!(files.iter().map(|f| f.ids.len()).collect::<Vec<_>>(), [57, 58, 70, 68, 71]);
    }
}
