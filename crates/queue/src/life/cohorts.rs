//! The tree of cohorts: who stands above whom, and cycles, which disable everybody in them and below.
//!
//! # Invariants
//!
//! - A walk upward ends: it never visits more cohorts than there are.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

/// Parents of cohorts. A name without an object is a cohort without quota and without a parent.
pub type Parents = BTreeMap<Text, Text>;

/// The cohorts from `start` upward, itself first, or the cycle that the walk ends in.
///
/// # Errors
/// The names of the cycle, in the order in which parents follow each other, the smallest name first.
pub fn path_up(parents: &Parents, start: &Text) -> Result<Vec<Text>, Vec<Text>> {
    let mut path = vec![start.clone()];
    let mut seen = BTreeSet::from([start.clone()]);
    let mut at = start;
    while let Some(parent) = parents.get(at).filter(|it| !it.is_empty()) {
        if !seen.insert(parent.clone()) {
            return Err(cycle(&path, parent));
        }
        path.push(parent.clone());
        at = parent;
    }
    Ok(path)
}

/// The part of a walk from where it came back to.
fn cycle(path: &[Text], back: &Text) -> Vec<Text> {
    let from = path.iter().position(|it| it == back).unwrap_or(0);
    let mut cycle = path[from..].to_vec();
    let first = cycle.iter().enumerate().min_by_key(|(_, name)| (*name).clone()).map_or(0, |(at, _)| at);
    cycle.rotate_left(first);
    cycle
}

/// A queue's place, from the root down, as preemptions tell it; what is not known is `UNKNOWN`.
#[must_use]
pub fn path_text(parents: &Parents, cohort: &Text, cluster_queue: &str) -> String {
    if cluster_queue.is_empty() {
        return "UNKNOWN".to_owned();
    }
    let mut names = match path_up(parents, cohort) {
        _ if cohort.is_empty() => Vec::new(),
        Ok(path) => path,
        Err(_) => return "UNKNOWN".to_owned(),
    };
    names.reverse();
    let above: String = names.iter().map(|it| format!("/{it}")).collect();
    format!("{above}/{cluster_queue}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(pairs: &[(&str, &str)]) -> Parents {
        pairs.iter().map(|(child, parent)| (Text::from(*child), Text::from(*parent))).collect()
    }

    #[test]
    fn walks_upward_end_at_the_root_or_in_a_cycle() {
        let all =
            parents(&[("a", "b"), ("b", "c"), ("x", "z"), ("z", "y"), ("y", "z"), ("me", "me"), ("r", "")]);
        type Walk = Result<&'static [&'static str], &'static [&'static str]>;
        let cases: &[(&str, Walk)] = &[
            ("a", Ok(&["a", "b", "c"])),
            ("c", Ok(&["c"])),
            ("r", Ok(&["r"])),
            ("nobody", Ok(&["nobody"])),
            ("x", Err(&["y", "z"])),
            ("z", Err(&["y", "z"])),
            ("y", Err(&["y", "z"])),
            ("me", Err(&["me"])),
        ];
        for (start, want) in cases {
            let got = path_up(&all, &Text::from(*start));
            let texts = |names: &[&str]| names.iter().map(|it| Text::from(*it)).collect::<Vec<_>>();
            assert_eq!(got, want.map(texts).map_err(texts), "{start}");
        }
    }

    #[test]
    fn places_are_told_from_the_root() {
        let all = parents(&[("team", "dept"), ("dept", "org"), ("p", "q"), ("q", "p")]);
        for (cohort, queue, want) in [
            ("team", "cq", "/org/dept/team/cq"),
            ("", "cq", "/cq"),
            ("lone", "cq", "/lone/cq"),
            ("p", "cq", "UNKNOWN"),
            ("team", "", "UNKNOWN"),
        ] {
            assert_eq!(path_text(&all, &Text::from(cohort), queue), want);
        }
    }
}
