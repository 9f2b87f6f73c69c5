//! Formats values as kube-apiserver's error messages do: Go's field names and order.
//!
//! # Deliberately absent
//!
//! Large types such as a pod spec: those are shown in wire form.

use muster_tree::Tree;

/// A field: Go name, JSON name, and the text for an absent value.
pub(crate) type Part = (&'static str, &'static str, &'static str);

/// A resource claim of a pod.
pub(super) const POD_CLAIM: [Part; 3] = [
    ("Name", "name", "\"\""),
    ("ResourceClaimName", "resourceClaimName", "null"),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", "null"),
];
pub(super) const ROLE_REF: [Part; 3] =
    [("APIGroup", "apiGroup", "\"\""), ("Kind", "kind", "\"\""), ("Name", "name", "\"\"")];
/// A success policy rule.
pub(super) const SUCCESS_RULE: [Part; 2] =
    [("SucceededIndexes", "succeededIndexes", "null"), ("SucceededCount", "succeededCount", "null")];

/// Formats a map with Go's field names.
pub(crate) fn typed(value: &Tree, parts: &[Part]) -> String {
    let field = |(name, key, absent): &Part| {
        let shown = value.get(key).map_or_else(|| (*absent).to_owned(), Tree::to_json);
        format!("{name:?}:{shown}")
    };
    format!("{{{}}}", parts.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Formats a list of such maps.
pub(crate) fn all_typed(values: &[Tree], parts: &[Part]) -> String {
    format!("[{}]", values.iter().map(|value| typed(value, parts)).collect::<Vec<_>>().join(","))
}

/// JSON with these keys first, in this order.
pub(super) fn ordered(value: &Tree, order: &[&str]) -> String {
    match value {
        Tree::List(_) => {
            let items: Vec<String> = value.items().iter().map(|item| ordered(item, order)).collect();
            format!("[{}]", items.join(","))
        }
        Tree::Map(_) => {
            let mut entries: Vec<_> = value.entries().iter().collect();
            entries
                .sort_by_key(|(key, _)| order.iter().position(|k| *k == key.as_str()).unwrap_or(order.len()));
            let fields: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{:?}:{}", key.as_str(), ordered(value, order)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        _ => value.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn values_have_the_names_and_the_order_of_types() {
        let claim = tree!({"name": "r"});
        let shown = r#"{"Name":"r","ResourceClaimName":null,"ResourceClaimTemplateName":null}"#;
        assert_eq!(typed(&claim, &POD_CLAIM), shown);
        assert_eq!(all_typed(&[], &SUCCESS_RULE), "[]");
        let value = tree!({"count": 1, "name": "r", "more": [{"b": 1, "name": "x"}]});
        assert_eq!(ordered(&value, &["name"]), r#"{"name":"r","count":1,"more":[{"name":"x","b":1}]}"#);
    }
}
