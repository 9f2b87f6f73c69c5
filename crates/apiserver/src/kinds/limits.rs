//! LimitRanges: what containers get that do not say.

use muster_tree::Tree;

use super::Strategy;

/// What ranges of limits do differently.
#[derive(Debug)]
pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn default(&self, tree: Tree) -> Tree {
        let Some(limits) = tree.at(&["spec", "limits"]) else {
            return tree;
        };
        let limits = limits.map_items(|_, limit| match limit.str_at(&["type"]) {
            "Container" => filled(limit),
            _ => limit.clone(),
        });
        tree.with(&["spec", "limits"], limits)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// The limit defaults to the largest, the request to the limit, else to the smallest.
fn filled(limit: &Tree) -> Tree {
    let limit = borrowed(limit, "default", "max");
    let limit = borrowed(&limit, "defaultRequest", "default");
    borrowed(&limit, "defaultRequest", "min")
}

fn borrowed(limit: &Tree, to: &str, from: &str) -> Tree {
    limit.entries_at(&[from]).iter().fold(limit.clone(), |limit, (name, amount)| {
        if limit.at(&[to, name]).is_some() { limit } else { limit.with(&[to, name], amount.clone()) }
    })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_is_absent_is_borrowed() {
        for (given, default, request) in [
            (tree!({"max": {"cpu": "2"}}), Some("2"), Some("2")),
            (tree!({"min": {"cpu": "1"}}), None, Some("1")),
            (tree!({"max": {"cpu": "2"}, "min": {"cpu": "1"}}), Some("2"), Some("2")),
            (tree!({"default": {"cpu": "3"}, "defaultRequest": {"cpu": "1"}}), Some("3"), Some("1")),
        ] {
            let limit = given.with_key("type", "Container".into());
            let range = tree!({"spec": {"limits": [limit]}});
            let filled = LimitRange.default(range);
            let limit = &filled.items_at(&["spec", "limits"])[0];
            let of = |key: &str| limit.at(&[key, "cpu"]).and_then(Tree::as_str);
            assert_eq!((of("default"), of("defaultRequest")), (default, request), "{given:?}");
        }
    }
}
