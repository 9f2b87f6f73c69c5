//! `cargo xtask tidy`: the measures of the house style, and the two rules that a compiler does not check.
//!
//! The measures (lengths, comments, type names) are printed and never fail: they are a matter of taste. The task fails if a
//! public type name is defined in more than two packages, or a wire constant of our kinds is written outside `crates/api`,
//! unless `known.rs` lists it. `cargo xtask test` runs the same check as a unit test.
//!
//! # Deliberately absent
//!
//! A parser of Rust: this package builds before every task, so it depends on none. The lexer here splits text into
//! tokens, and the measures match short sequences of them.

mod comments;
mod known;
mod lexer;
mod measure;
mod report;
mod rules;
mod scan;
mod sources;
mod test_items;

use std::path::{Path, PathBuf};

use self::measure::{TableRow, type_names};
use self::report::TidyReport;
use self::sources::ScannedPackage;
use xtask::process;

const USAGE: &str = "usage: cargo xtask tidy [-o json] [DIRECTORY]

  -o json    the same as JSON
  DIRECTORY  the root of another copy of this workspace";

const KNOWN: &str = "xtask/src/tidy/known.rs";

/// The task.
#[expect(clippy::print_stdout, reason = "the measures are the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (json, rest) = match args[..] {
        ["-o", "json", ref rest @ ..] => (true, rest),
        ref rest => (false, rest),
    };
    let root = match rest {
        [] => process::root(),
        [directory] if !directory.starts_with('-') => PathBuf::from(directory),
        _ => return Err(format!("{}: unknown\n{USAGE}", rest.join(" "))),
    };
    let report = report(&root)?;
    if json {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.text());
    }
    match report.violations.len() {
        0 => Ok(()),
        _ => Err(failure(&report.violations)),
    }
}

fn failure(violations: &[String]) -> String {
    let lines = violations.join("\n");
    format!("rename homonymous types, define wire constants in crates/api; the lists are in {KNOWN}\n{lines}")
}

fn report(root: &Path) -> Result<TidyReport, String> {
    let packages = sources::packages(root)?;
    let (product, tooling): (Vec<&ScannedPackage>, Vec<_>) = packages.iter().partition(|it| it.product);
    let tooling_names: Vec<&str> = tooling.iter().map(|it| it.name.as_str()).collect();
    let public_names = type_names(&packages, true);
    let wire_literals = rules::wire_literals(&packages);
    Ok(TidyReport {
        crates: product.iter().map(|it| TableRow::of(&it.name, [*it])).collect(),
        product: TableRow::of("all crates", product),
        tooling: TableRow::of(&tooling_names.join(", "), tooling),
        names: type_names(&packages, false),
        violations: rules::violations(&public_names, &wire_literals),
        public_names,
        wire_literals,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_follows_the_rules_but_for_known_violations() {
        let report = report(&process::root()).expect("the workspace can be read");
        assert!(report.crates.len() > 15 && report.product.code_lines > 10_000, "the crates are not found");
        assert!(report.violations.is_empty(), "{}", failure(&report.violations));
    }
}
