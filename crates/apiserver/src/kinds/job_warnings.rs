//! Warnings for valid but suspicious Jobs.

use muster_schema::names;
use muster_tree::Tree;

use super::pod_check;

/// Above this many completions and
const COMPLETIONS_MAX: i64 = 100_000;
/// this parallelism, status tracking of indexes becomes too large.
const PARALLELISM_MAX: i64 = 10_000;

/// A name that is no DNS label: pods get no stable host names.
pub(super) fn name(job: &Tree) -> Vec<String> {
    let problems = names::label(job.str_at(&["metadata", "name"]));
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}

/// Large index tracking, and deprecated fields of the pod template.
pub(super) fn spec(spec: &Tree, at: &str) -> Vec<String> {
    let number = |key: &str| spec.int_at(&[key]).unwrap_or(0);
    let many = spec.str_at(&["completionMode"]) == "Indexed"
        && number("completions") > COMPLETIONS_MAX
        && number("parallelism") > PARALLELISM_MAX;
    let words = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
    let template = pod_check::warnings(spec.at(&["template", "spec"]), &format!("{at}.template.spec"));
    many.then(|| format!("{at}: {words}")).into_iter().chain(template).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_is_seldom_meant() {
        for (says, job, want) in [
            ("a plain name", tree!({"metadata": {"name": "a"}}), 0),
            ("dots", tree!({"metadata": {"name": "a.b"}}), 1),
            (
                "too many indexes",
                tree!({"metadata": {"name": "a"},
                    "spec": {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}}),
                1,
            ),
        ] {
            let found = name(&job).len() + spec(job.get("spec").unwrap_or(&Tree::Null), "spec").len();
            assert_eq!(found, want, "{says}");
        }
    }
}
