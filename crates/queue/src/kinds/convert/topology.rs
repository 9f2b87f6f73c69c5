//! Topology assignments: a list of domains in `v1beta1`, slices in columnar form in `v1beta2`.

use muster_tree::{Text, Tree, tree};

/// Bound on the domains of one slice.
const DOMAINS_MAX: usize = 100_000;

/// Converts domains to slices; a value common to all domains of a slice is stored once.
pub(super) fn slices(assignment: &Tree) -> Tree {
    let levels = assignment.items_at(&["levels"]).len();
    let slices = assignment.items_at(&["domains"]).chunks(DOMAINS_MAX).map(|domains| slice(domains, levels));
    assignment.without_key("domains").with(&["slices"], Tree::list(slices))
}

fn slice(domains: &[Tree], levels: usize) -> Tree {
    let counts: Vec<i64> = domains.iter().map(|it| it.int_at(&["count"]).unwrap_or(0)).collect();
    let counts = match common(&counts) {
        Some(count) => tree!({"universal": *count}),
        None => tree!({"individual": Tree::list(counts)}),
    };
    let values = (0..levels).map(|level| column(domains, level));
    tree!({"domainCount": i64::try_from(domains.len()).unwrap_or(i64::MAX), "podCounts": counts,
        "valuesPerLevel": Tree::list(values)})
}

/// The values of one level over all domains.
fn column(domains: &[Tree], level: usize) -> Tree {
    let value = |it: &Tree| it.items_at(&["values"]).get(level).and_then(Tree::as_text).cloned();
    let values: Vec<Text> = domains.iter().map(|it| value(it).unwrap_or_default()).collect();
    match common(&values) {
        Some(value) => tree!({"universal": value}),
        None => tree!({"individual": {"roots": Tree::list(values)}}),
    }
}

/// The common value, if all are equal.
fn common<T: PartialEq>(all: &[T]) -> Option<&T> {
    all.first().filter(|first| all.iter().all(|it| it == *first))
}

pub(super) fn domains(assignment: &Tree) -> Tree {
    let domains = assignment.items_at(&["slices"]).iter().flat_map(of_slice);
    assignment.without_key("slices").with(&["domains"], Tree::list(domains))
}

fn of_slice(slice: &Tree) -> Vec<Tree> {
    let size = slice.int_at(&["domainCount"]).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let levels = slice.items_at(&["valuesPerLevel"]);
    let domain = |at: usize| {
        let values = Tree::list(levels.iter().map(|level| value(level, at)));
        tree!({"values": values, "count": count(slice, at)})
    };
    (0..size.min(DOMAINS_MAX)).map(domain).collect()
}

fn value(level: &Tree, at: usize) -> Tree {
    if let Some(all) = level.get("universal") {
        return all.clone();
    }
    let part = |key: &str| level.str_at(&["individual", key]);
    let root = level.items_at(&["individual", "roots"]).get(at).and_then(Tree::as_str);
    Tree::from(format!("{}{}{}", part("prefix"), root.unwrap_or_default(), part("suffix")))
}

fn count(slice: &Tree, at: usize) -> i64 {
    let each = slice.items_at(&["podCounts", "individual"]).get(at).and_then(Tree::as_int);
    each.or_else(|| slice.int_at(&["podCounts", "universal"])).unwrap_or(0)
}
