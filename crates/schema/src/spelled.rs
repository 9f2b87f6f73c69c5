//! Values formatted as Go's `%v` does, for messages: `map[image:nginx ports:[80 81]]`.

use muster_tree::Tree;

/// Formats a value as Go's `%v` does.
#[must_use]
pub fn spelled(value: &Tree) -> String {
    match value {
        Tree::Null => "<nil>".to_owned(),
        Tree::Text(text) => text.to_string(),
        Tree::List(list) => {
            let items: Vec<String> = list.slice.iter().map(spelled).collect();
            format!("[{}]", items.join(" "))
        }
        Tree::Map(map) => {
            let entries: Vec<String> =
                map.slice.iter().map(|(key, value)| format!("{key}:{}", spelled(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_json(),
    }
}

/// The JSON type name of a value, as in messages of Go's decoder.
#[must_use]
pub fn json_word(value: &Tree) -> &'static str {
    match value {
        Tree::Bool(_) => "bool",
        Tree::Int(_) | Tree::Float(_) => "number",
        other => other.type_word(),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn values_are_spelled_as_clients_know_it() {
        let value = tree!({"b": [1, true, "x y"], "a": {"n": null, "e": {}}, "c": 1.5});
        assert_eq!(spelled(&value), "map[a:map[e:map[] n:<nil>] b:[1 true x y] c:1.5]");
    }
}
