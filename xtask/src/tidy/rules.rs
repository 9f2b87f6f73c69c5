//! The two rules that fail the task: homonymous public types, and wire constants outside `api`.
//!
//! Each rule has a list of known violations in `known.rs`. A violation that is not on the list fails, and so does an entry
//! without its violation, so that the lists only shrink.

use std::collections::BTreeSet;

use super::known;
use super::measure::{SourcePlace, TypeNames, packages_of};
use super::sources::ScannedPackage;

/// A public type name may be defined in as many packages.
const PACKAGES_MAX: usize = 2;

/// Names with one meaning wherever they are: the errors, settings and command-line options of their module.
const GENERAL_NAMES: [&str; 3] = ["Config", "Error", "Options"];

/// The package that defines wire constants.
const API: &str = "api";

/// Domains of our kinds. A literal `domain/name` of one of them, or of a domain below it, is a label, annotation, finalizer,
/// condition or API version.
const DOMAINS: [&str; 7] = [
    "jobset.sigs.k8s.io",
    "jobset.x-k8s.io",
    "kueue.k8s.io",
    "kueue.x-k8s.io",
    "muster.dev",
    "scheduling.k8s.io",
    "trainer.kubeflow.org",
];

/// Whether the whole literal is a wire constant of our domains.
fn is_wire_constant(literal: &str) -> bool {
    let Some((domain, name)) = literal.split_once('/') else { return false };
    let ours = |it: &str| domain.strip_suffix(it).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let of_name = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    DOMAINS.iter().any(|it| ours(it)) && !name.is_empty() && (domain.chars().chain(name.chars())).all(of_name)
}

/// Returns the wire constants that product crates other than `api` write as literals.
pub fn wire_literals(packages: &[ScannedPackage]) -> Vec<(String, SourcePlace)> {
    let mut found = Vec::new();
    for package in packages.iter().filter(|it| it.product && it.name != API) {
        for file in &package.files {
            for literal in file.facts.literals.iter().filter(|it| is_wire_constant(&it.text)) {
                let path = file.path.display().to_string();
                let place = SourcePlace { package: package.name.clone(), path, line: literal.line };
                found.push((literal.text.clone(), place));
            }
        }
    }
    found
}

/// Compares what is found with `known.rs`: one line for each violation that is not known and each entry to delete, written
/// as in that file.
pub fn violations(public: &TypeNames, literals: &[(String, SourcePlace)]) -> Vec<String> {
    let homonyms = public.iter().filter(|(name, _)| !GENERAL_NAMES.contains(&name.as_str()));
    let homonyms = homonyms.map(|(name, places)| (name.as_str(), packages_of(places)));
    let homonyms = homonyms.filter(|it| it.1.len() > PACKAGES_MAX);
    let homonyms = homonyms.map(|(name, it)| (name, it.into_iter().collect::<Vec<_>>()));
    let known_homonyms = known::HOMONYMS.iter().map(|(name, packages)| (*name, packages.to_vec()));
    let literals = literals.iter().map(|(text, place)| (place.path.as_str(), text.as_str()));
    let homonyms = difference(homonyms, known_homonyms, "HOMONYMS");
    let wire = difference(literals, known::WIRE_LITERALS.iter().copied(), "WIRE_LITERALS");
    homonyms.into_iter().chain(wire).collect()
}

/// Compares what is found with the list of known violations.
fn difference<T: Ord + EntryOfKnown>(
    found: impl Iterator<Item = T>,
    known: impl Iterator<Item = T>,
    list: &str,
) -> Vec<String> {
    let (found, known) = (found.collect::<BTreeSet<_>>(), known.collect::<BTreeSet<_>>());
    let new = found.difference(&known).map(|it| format!("not in {list}: {}", it.as_written()));
    let gone = known.difference(&found).map(|it| format!("to delete from {list}: {}", it.as_written()));
    new.chain(gone).collect()
}

/// How an entry is written in `known.rs`.
trait EntryOfKnown {
    fn as_written(&self) -> String;
}

impl EntryOfKnown for (&str, Vec<&str>) {
    fn as_written(&self) -> String {
        format!("({:?}, &{:?}),", self.0, self.1)
    }
}

impl EntryOfKnown for (&str, &str) {
    fn as_written(&self) -> String {
        format!("{self:?},")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_constants_are_whole_literals_of_our_domains() {
        let cases = [
            ("kueue.x-k8s.io/queue-name", true),
            ("visibility.kueue.x-k8s.io/v1beta2", true),
            ("trainer.kubeflow.org/resource-in-use", true),
            ("muster.dev/simulated", true),
            ("kueue.x-k8s.io", false),
            ("kueue.x-k8s.io/", false),
            ("mykueue.x-k8s.io/queue-name", false),
            ("kubernetes.io/hostname", false),
            ("label kueue.x-k8s.io/queue-name is immutable", false),
            ("set the label kueue.x-k8s.io/queue-name", false),
            ("kueue.x-k8s.io/v1beta2/namespaces/a", false),
            ("kueue.x-k8s.io/{name}", false),
        ];
        for (literal, want) in cases {
            assert_eq!(is_wire_constant(literal), want, "{literal}");
        }
    }

    #[test]
    fn new_violations_and_entries_without_a_violation_both_fail() {
        let (known, found) =
            ([("a.rs", "old"), ("b.rs", "kept")], [("b.rs", "kept"), ("b.rs", "kept"), ("c.rs", "new")]);
        let got = difference(found.into_iter(), known.into_iter(), "LIST");
        assert_eq!(got, ["not in LIST: (\"c.rs\", \"new\"),", "to delete from LIST: (\"a.rs\", \"old\"),"]);
        let homonym = ("Snapshot", vec!["job", "queue", "sim"]);
        assert_eq!(homonym.as_written(), r#"("Snapshot", &["job", "queue", "sim"]),"#);
    }
}
