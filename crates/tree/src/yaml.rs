//! YAML in, through the same reader as JSON: duplicate keys are errors there, as the YAML specification says.

use crate::Tree;
use crate::json::ParseError;

/// The most nodes that alias expansion may produce.
const YAML_NODES_MAX: usize = 1_000_000;

impl Tree {
    /// Reads one YAML document.
    pub fn parse_yaml(text: &str) -> Result<Tree, ParseError> {
        let mut documents = Tree::parse_yaml_documents(text)?;
        match documents.len() {
            0 => Ok(Tree::Null),
            1 => Ok(documents.remove(0)),
            n => Err(ParseError::new(format!("expected one YAML document, found {n}"))),
        }
    }

    /// Reads all documents of a YAML stream; empty ones are passed over.
    pub fn parse_yaml_documents(text: &str) -> Result<Vec<Tree>, ParseError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: YAML_NODES_MAX },
        };
        let documents: Vec<Tree> = serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|e| ParseError::new(e.to_string()))?;
        Ok(documents.into_iter().filter(|d| !d.is_null()).collect())
    }

    /// YAML text of this tree.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a tree is always a YAML value")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Tree, tree};

    #[test]
    fn documents_types_and_anchors() {
        let text = "a: 1\nb: [x, 'true', true, null, 1.5]\nc: &k {d: e}\nf: *k\n---\n---\nkind: Second\n";
        let all = Tree::parse_yaml_documents(text).unwrap();
        assert_eq!(
            all,
            [
                tree!({"a": 1, "b": ["x", "true", true, null, 1.5], "c": {"d": "e"}, "f": {"d": "e"}}),
                tree!({"kind": "Second"})
            ]
        );
        assert!(Tree::parse_yaml("a: 1\n---\nb: 2\n").is_err());
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let tree = tree!({"a": ["yes", "1", "", 1, null, true, {"b": "line\nline\n"}], "e": {}, "l": []});
        assert_eq!(Tree::parse_yaml(&tree.to_yaml()).unwrap(), tree);
    }
}
