//! Comparing our results with the answers of a real server, which has defaulted and completed them.

use muster_tree::Tree;

/// Fields that the server itself writes.
fn without_server_fields(tree: &Tree) -> Tree {
    ["uid", "creationTimestamp", "generation", "namespace"]
        .iter()
        .fold(tree.clone(), |tree, name| tree.without(&["metadata", name]))
}

/// Every value we made is in the server's answer, in the same order; what the server has beyond it (defaults,
/// what it writes itself) was not in the old object, or is still in ours.
pub fn same_values(old: &Tree, got: &Tree, want: &Tree) -> Result<(), String> {
    let (old, got, want) =
        (without_server_fields(old), without_server_fields(got), without_server_fields(want));
    within("", &got, &want)?;
    kept("", &old, &got, &want)
}

fn within(path: &str, got: &Tree, want: &Tree) -> Result<(), String> {
    match (got, want) {
        (Tree::Map(_), Tree::Map(_)) => got.entries().iter().try_for_each(|(key, value)| {
            let path = format!("{path}.{key}");
            match want.get(key) {
                Some(want) => within(&path, value, want),
                None if value.is_empty() => Ok(()),
                None => Err(format!("{path} should be gone: {value}")),
            }
        }),
        (Tree::List(_), Tree::List(_)) if got.items().len() == want.items().len() => {
            let mut pairs = got.items().iter().zip(want.items()).enumerate();
            pairs.try_for_each(|(i, (got, want))| within(&format!("{path}[{i}]"), got, want))
        }
        // Some versions leave an emptied map as `null`, which is equivalent.
        _ if got == want || got.is_null() || (got.is_empty() && want.is_empty()) => Ok(()),
        _ => Err(format!("{path} is {got}, want {want}")),
    }
}

fn kept(path: &str, old: &Tree, got: &Tree, want: &Tree) -> Result<(), String> {
    want.entries().iter().try_for_each(|(key, value)| {
        let path = format!("{path}.{key}");
        match (old.get(key), got.get(key)) {
            (Some(old), Some(got)) => kept(&path, old, got, value),
            (Some(old), None) if !old.is_empty() && old == value && value.is_map() => {
                Err(format!("{path} should be kept: {value}"))
            }
            _ => Ok(()),
        }
    })
}
