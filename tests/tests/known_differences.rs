//! The page of known differences is made of the tables that the tests use.
//!
//! `MUSTER_RECORD=1 cargo xtask test known_differences` writes the page anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_api::unsupported::{TABLE, UnsupportedFeature};
use muster_tests::differential::known_differences;
use muster_tests::jobsets::ignored_parts::IGNORED_PARTS;

const HEAD: &str = "# Known differences

How the embedded server and the operator differ from a real Kubernetes and from the upstream controllers. The tables are generated
from the lists that the tests use (`MUSTER_RECORD=1 cargo xtask test known_differences`); a test compares them.
";

const UNSUPPORTED: &str = "
## Input without effect on the embedded server

The server stores this input and answers the write with a `Warning` header. A kind that waits for a controller also gets an event with the
reason `NoController`. `--admission '*,-UnsupportedInput'` turns the warnings off.

| input | what happens |
|---|---|
";

const ANSWERS: &str = "
## Answers that differ from a real kube-apiserver

The differential suite sends the same requests to both servers. Everything else in the answers is equal.

| part of the answer | scenario | reason | who could notice |
|---|---|---|---|
";

const REDUCED: &str = "
## Answers with less than a real kube-apiserver gives

`tests/tests/kubectl_get.rs` shows these with kubectl.

| request | answer |
|---|---|
";

/// What is asked for, and what is missing in the answer.
const REDUCED_ROWS: [(&str, &str); 2] = [
    (
        "`kubectl explain` of a built-in kind, and `/openapi/v3`",
        "all fields with their types, defaults and whether they are required; no descriptions, since the published prose is not \
         shipped. JobSets, TrainJobs, queues and other CRDs have their descriptions",
    ),
    (
        "`kubectl explain --output=plaintext-openapiv2`, and `/openapi/v2`",
        "an OpenAPI v2 document without definitions; kubectl refuses. Without the flag it reads OpenAPI v3",
    ),
];

const STORED: &str = "
## What is not compared between JobSets of the embedded server and of a real one

| kind | what | reason |
|---|---|---|
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A resource as users name it: `deployments.apps`.
fn resource(row: &UnsupportedFeature) -> String {
    match (row.plural, row.group) {
        ("", _) => "any other object".to_owned(),
        (plural, "") => plural.to_owned(),
        (plural, group) => format!("{plural}.{group}"),
    }
}

fn page() -> String {
    let mut page = format!("{HEAD}{UNSUPPORTED}");
    for row in TABLE {
        let input = row.subject(&format!("`{}`", resource(row)));
        writeln!(page, "| {input} | {} |", row.effect).unwrap();
    }
    page.push_str(ANSWERS);
    for row in known_differences(&root().join("tests/scenarios")).unwrap() {
        let scenario = if row.scenario.is_empty() { "all" } else { &row.scenario };
        writeln!(page, "| `{}` | {scenario} | {} | {} |", row.path, row.reason, row.clients).unwrap();
    }
    page.push_str(REDUCED);
    for (request, answer) in REDUCED_ROWS {
        writeln!(page, "| {request} | {answer} |").unwrap();
    }
    page.push_str(STORED);
    for part in &IGNORED_PARTS {
        let kind = if part.kind.is_empty() { "all" } else { part.kind };
        writeln!(page, "| {kind} | {} | {} |", part.what, part.why).unwrap();
    }
    page
}

#[test]
fn the_page_lists_what_the_tests_list() {
    let file = root().join("docs/known-differences.md");
    if std::env::var_os("MUSTER_RECORD").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, page(), "write it anew: MUSTER_RECORD=1 cargo xtask test known_differences");
}
