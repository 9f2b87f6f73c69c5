//! YAML parsing and serialization.
//!
//! Duplicate keys are errors, as in the YAML specification; [`Tree::parse_yaml_lenient`] reports them instead, and the
//! last one wins, as in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::json::{DEPTH_MAX, ParseError};
use crate::{Text, Tree};

/// Largest number of nodes after alias expansion: bounds the memory of a small malicious document.
const YAML_NODES_MAX: usize = 1_000_000;

impl Tree {
    /// Parses a single YAML document; an empty stream is `null`.
    pub fn parse_yaml(text: &str) -> Result<Tree, ParseError> {
        let mut documents = Tree::parse_yaml_documents(text)?;
        match documents.len() {
            0 => Ok(Tree::Null),
            1 => Ok(documents.remove(0)),
            n => Err(ParseError::new(format!("expected one YAML document, found {n}"))),
        }
    }

    /// Parses all documents of a YAML stream; empty ones are skipped.
    pub fn parse_yaml_documents(text: &str) -> Result<Vec<Tree>, ParseError> {
        let documents: Vec<Tree> = read(text, DuplicateKeyPolicy::Error)?;
        Ok(documents.into_iter().filter(|d| !d.is_null()).collect())
    }

    /// Parses all documents of a YAML stream and reports duplicate keys; the last one wins.
    pub fn parse_yaml_lenient(text: &str) -> Result<(Vec<Tree>, Vec<Repeated>), ParseError> {
        // Duplicate keys are rare, so the strict parse goes first; the lenient one parses twice.
        if let Ok(documents) = Tree::parse_yaml_documents(text) {
            return Ok((documents, Vec::new()));
        }
        let documents: Vec<Tree> = read(text, DuplicateKeyPolicy::LastWins)?;
        let repeated: Vec<Keys> = read(text, DuplicateKeyPolicy::LastWins)?;
        let repeated = repeated.into_iter().flat_map(|keys| keys.repeated).collect();
        Ok((documents.into_iter().filter(|d| !d.is_null()).collect(), repeated))
    }

    /// Parses all documents of a YAML stream with the line of each key; empty ones are skipped.
    pub fn parse_yaml_lines(text: &str) -> Result<Vec<(Tree, Lines)>, ParseError> {
        let documents: Vec<Tree> = read(text, DuplicateKeyPolicy::Error)?;
        let keys: Vec<Keys> = read(text, DuplicateKeyPolicy::Error)?;
        let lines = keys.into_iter().map(|keys| keys.lines);
        Ok(documents.into_iter().zip(lines).filter(|(document, _)| !document.is_null()).collect())
    }

    /// Serializes to a YAML document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a tree is always a YAML value")
    }
}

fn read<T: de::DeserializeOwned>(text: &str, duplicates: DuplicateKeyPolicy) -> Result<Vec<T>, ParseError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: YAML_NODES_MAX },
        duplicate_keys: duplicates,
        // File modes such as `0400` are octal in manifests; kubectl reads them as YAML 1.1 does.
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|e| ParseError::new(e.to_string()))
}

/// A duplicate key of a YAML map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Line of the second occurrence, from 1.
    pub line: u64,
    /// The duplicate key itself.
    pub key: Text,
}

/// The line of each key, from 1, by its path: `a.b[0].c`.
pub type Lines = BTreeMap<String, u64>;

/// Visits only the keys of a document.
#[derive(Default)]
struct Keys {
    repeated: Vec<Repeated>,
    lines: Lines,
}

impl<'de> de::Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut found = Keys::default();
        Walk { depth: 0, path: String::new(), found: &mut found }.deserialize(input)?;
        Ok(found)
    }
}

struct Walk<'a> {
    depth: usize,
    path: String,
    found: &'a mut Keys,
}

impl Walk<'_> {
    fn below<E: de::Error>(&mut self, path: String) -> Result<Walk<'_>, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom("exceeded max depth"));
        }
        Ok(Walk { depth: self.depth + 1, path, found: self.found })
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for at in 0_usize.. {
            let path = format!("{}[{at}]", self.path);
            if seq.next_element_seed(self.below(path)?)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            if !seen.insert(key.value.clone()) {
                self.found.repeated.push(Repeated { line, key: Text::from(key.value.as_str()) });
            }
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{}", self.path, key.value);
            self.found.lines.insert(path.clone(), line);
            map.next_value_seed(self.below(path)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Repeated, Tree, tree};

    #[test]
    fn modes_are_octal() {
        for (text, want) in [("0400", 256), ("0o400", 256), ("400", 400), ("0", 0), ("-010", -8)] {
            assert_eq!(Tree::parse_yaml(text).unwrap(), Tree::Int(want), "{text}");
        }
        assert_eq!(Tree::parse_yaml("\"0400\"").unwrap(), Tree::from("0400"), "a text stays one");
    }

    #[test]
    fn duplicate_keys_are_rejected_or_reported() {
        let text = "a: 1\nb:\n  c: 1\n  c: 2\nl:\n- {x: 1, x: 2}\na: 2\n";
        assert!(Tree::parse_yaml_documents(text).is_err());
        let (documents, repeated) = Tree::parse_yaml_lenient(text).unwrap();
        assert_eq!(documents, [tree!({"a": 2, "b": {"c": 2}, "l": [{"x": 2}]})]);
        let of = |line, key: &str| Repeated { line, key: key.into() };
        assert_eq!(repeated, [of(4, "c"), of(6, "x"), of(7, "a")]);
        assert!(Tree::parse_yaml_lenient("a: [").is_err());
    }

    #[test]
    fn the_line_of_each_key_is_reported() {
        let text = "# a comment\na: 1\nb:\n  c:\n  - d: 1\n    e: 2\n---\n---\nkind: Second\n";
        let all = Tree::parse_yaml_lines(text).unwrap();
        let lines: Vec<Vec<(&str, u64)>> = all
            .iter()
            .map(|(_, lines)| lines.iter().map(|(path, line)| (path.as_str(), *line)).collect())
            .collect();
        let first = vec![("a", 2), ("b", 3), ("b.c", 4), ("b.c[0].d", 5), ("b.c[0].e", 6)];
        assert_eq!(lines, [first, vec![("kind", 9)]]);
        assert_eq!(all[1].0, tree!({"kind": "Second"}));
        assert!(Tree::parse_yaml_lines("a: 1\na: 2\n").is_err());
    }

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
    fn encoding_round_trips() {
        let tree = tree!({"a": ["yes", "1", "", 1, null, true, {"b": "line\nline\n"}], "e": {}, "l": []});
        assert_eq!(Tree::parse_yaml(&tree.to_yaml()).unwrap(), tree);
    }
}
