//! Admission of TrainJobs and runtimes, as tables: what is stored, mutated and rejected.

mod server;
mod shipped;
mod sizes;
mod words;

use muster_tree::Tree;
use server::Server;

/// The minimum number of cases: a table that is no longer read would go unnoticed.
const CASES_MIN: usize = 120;

const TABLES: &[&str] = &[LIFE, FIELDS, PATCHES, RUNTIMES, POLICIES, REFERENCES];
const LIFE: &str = include_str!("life.yaml");
const FIELDS: &str = include_str!("fields.yaml");
const PATCHES: &str = include_str!("patches.yaml");
const RUNTIMES: &str = include_str!("runtimes.yaml");
const POLICIES: &str = include_str!("policies.yaml");
const REFERENCES: &str = include_str!("references.yaml");

/// Runs a table. Each wanted line is part of the actual line, in order; `stored` is part of the stored object.
fn play(text: &str) {
    let mut wrong = Vec::new();
    for case in Tree::parse_yaml(text).unwrap().items() {
        let says = case.str_at(&["says"]);
        let answer = Server::of(case).write(case);
        let want: Vec<&str> = case.items_at(&["want"]).iter().filter_map(Tree::as_str).collect();
        assert!(!want.is_empty(), "{says}: nothing is wanted");
        let told = &answer.lines;
        let fits =
            told.len() == want.len() && told.iter().zip(&want).all(|(line, words)| line.contains(words));
        if !fits {
            wrong.push(format!("{says}\n--- want\n{}\n--- told\n{}\n", want.join("\n"), told.join("\n")));
        }
        let stored = case.get("stored").cloned().unwrap_or_else(Tree::empty_map);
        if !holds(&answer.stored, &stored) {
            wrong.push(format!("{says}\n--- stored\n{}\n--- instead of\n{stored}\n", answer.stored));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether `want` is part of the object; `null` means that the field is absent.
fn holds(there: &Tree, wanted: &Tree) -> bool {
    match wanted {
        Tree::Map(_) => wanted.entries().iter().all(|(key, below)| match there.get(key) {
            Some(it) => holds(it, below),
            None => below.is_null(),
        }),
        Tree::List(_) => {
            let (there, wanted) = (there.items(), wanted.items());
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(it, want)| holds(it, want))
        }
        _ => there == wanted,
    }
}

#[test]
fn no_table_is_forgotten() {
    let cases: usize = TABLES.iter().map(|text| Tree::parse_yaml(text).unwrap().items().len()).sum();
    assert!(cases >= CASES_MIN, "only {cases} cases");
}

/// Shows: 2899-03, 2899-04, 2899-05, 2899-06, 2899-30.
#[test]
fn time_to_live_and_deadline() {
    play(LIFE);
}

#[test]
fn fields_of_train_jobs() {
    play(FIELDS);
}

#[test]
fn patches_of_runtimes() {
    play(PATCHES);
}

#[test]
fn runtimes() {
    play(RUNTIMES);
}

#[test]
fn what_policies_ask() {
    play(POLICIES);
}

#[test]
fn which_runtime_a_job_names() {
    play(REFERENCES);
}
