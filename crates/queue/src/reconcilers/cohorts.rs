//! The cohort hierarchy: ancestor paths and cycles. A cycle makes every ClusterQueue in it or below it inactive.
//!
//! # Guarantees
//!
//! - A walk terminates: it visits each cohort at most once.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

/// Parent by cohort. A cohort that is only referenced has no quota and no parent.
pub type CohortParents = BTreeMap<Text, Text>;

/// The path from `start` to the root, `start` included.
///
/// # Errors
/// The names of the cycle in parent order, smallest name first.
pub fn ancestor_path(parents: &CohortParents, start: &Text) -> Result<Vec<Text>, Vec<Text>> {
    let mut path = vec![start.clone()];
    let mut visited = BTreeSet::from([start.clone()]);
    let mut at = start;
    while let Some(parent) = parents.get(at).filter(|it| !it.is_empty()) {
        if !visited.insert(parent.clone()) {
            return Err(cycle(&path, parent));
        }
        path.push(parent.clone());
        at = parent;
    }
    Ok(path)
}

fn cycle(path: &[Text], back: &Text) -> Vec<Text> {
    let from = path.iter().position(|it| it == back).unwrap_or(0);
    let mut cycle = path[from..].to_vec();
    let first = cycle.iter().enumerate().min_by_key(|(_, name)| (*name).clone()).map_or(0, |(at, _)| at);
    cycle.rotate_left(first);
    cycle
}

/// The path `/<cohorts>/<ClusterQueue>` from the root, as preemption messages print it; `UNKNOWN` if it cannot be
/// determined.
#[must_use]
pub fn path_text(parents: &CohortParents, cohort: &Text, cluster_queue: &str) -> String {
    if cluster_queue.is_empty() {
        return "UNKNOWN".to_owned();
    }
    let mut names = match ancestor_path(parents, cohort) {
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

    fn parents(pairs: &[(&str, &str)]) -> CohortParents {
        pairs.iter().map(|(child, parent)| (Text::from(*child), Text::from(*parent))).collect()
    }

    #[test]
    fn ancestor_paths_end_at_the_root_or_in_a_cycle() {
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
            let got = ancestor_path(&all, &Text::from(*start));
            let texts = |names: &[&str]| names.iter().map(|it| Text::from(*it)).collect::<Vec<_>>();
            assert_eq!(got, want.map(texts).map_err(texts), "{start}");
        }
    }

    #[test]
    fn paths_start_at_the_root() {
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
