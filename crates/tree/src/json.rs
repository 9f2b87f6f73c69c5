//! JSON parsing and serialization.
//!
//! Parsing keeps the last of duplicate keys, as Go does, and can report duplicates for strict field validation.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use triomphe::ThinArc;

use crate::syntax_error;
use crate::{Text, Tree};

/// Largest nesting depth of a tree; deeper input is rejected.
pub const DEPTH_MAX: usize = 512;

/// A JSON or YAML syntax error, in the wording of Go's decoder.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// An error with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ParseError(text.into())
    }
}

/// A duplicate key, as a path such as `spec.containers[0].image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate(pub String);

impl Tree {
    /// Parses one JSON document; the last of duplicate keys wins.
    pub fn parse(bytes: &[u8]) -> Result<Tree, ParseError> {
        Tree::parse_strict(bytes).map(|(tree, _)| tree)
    }

    /// Parses one JSON document and reports duplicate keys; the last one wins.
    pub fn parse_strict(bytes: &[u8]) -> Result<(Tree, Vec<Duplicate>), ParseError> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        json.disable_recursion_limit();
        let mut duplicates = Vec::new();
        let seed = Seed { depth: 0, path: &Path::Root, duplicates: &mut duplicates };
        // Data errors (depth, invalid UTF-8) keep the reader's message; only syntax errors have upstream's wording.
        let wrong = |e: serde_json::Error| {
            let found = if e.is_data() { None } else { syntax_error::find(bytes) };
            ParseError(found.unwrap_or_else(|| e.to_string()))
        };
        let tree = seed.deserialize(&mut json).map_err(wrong)?;
        json.end().map_err(wrong)?;
        Ok((tree, duplicates))
    }

    /// Serializes to a compact JSON string.
    #[must_use]
    pub fn to_json(&self) -> String {
        String::from_utf8(self.to_json_bytes()).expect("serde_json writes UTF-8")
    }

    /// Serializes to compact JSON bytes.
    #[must_use]
    pub fn to_json_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        self.write_json(&mut out);
        out
    }

    /// Appends the compact JSON to a buffer.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(out, self).expect("writing to memory cannot fail and all keys are text");
    }

    /// Converts to a `serde_json::Value`, for libraries that require one (CEL, JSON patch).
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a tree is always a JSON value")
    }

    /// Converts from a `serde_json::Value`.
    #[must_use]
    pub fn from_value(value: &serde_json::Value) -> Tree {
        use serde_json::Value;
        match value {
            Value::Null => Tree::Null,
            Value::Bool(b) => Tree::Bool(*b),
            Value::Number(n) => {
                n.as_i64().map_or_else(|| Tree::Float(n.as_f64().unwrap_or(f64::NAN)), Tree::Int)
            }
            Value::String(text) => Tree::from(text),
            Value::Array(items) => Tree::list(items.iter().map(Tree::from_value)),
            Value::Object(entries) => {
                Tree::map(entries.iter().map(|(k, v)| (k.as_str(), Tree::from_value(v))))
            }
        }
    }
}

/// Formats `text` as a JSON string, with quotes.
#[must_use]
pub fn escape_json(text: &str) -> String {
    serde_json::to_string(text).expect("text is always valid JSON")
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => out.serialize_unit(),
            Tree::Bool(b) => out.serialize_bool(*b),
            Tree::Int(n) => out.serialize_i64(*n),
            Tree::Float(n) => out.serialize_f64(*n),
            Tree::Text(text) => out.serialize_str(text),
            Tree::List(items) => {
                let mut seq = out.serialize_seq(Some(items.slice.len()))?;
                for item in &items.slice {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Tree::Map(entries) => {
                let mut map = out.serialize_map(Some(entries.slice.len()))?;
                for (key, value) in &entries.slice {
                    map.serialize_entry(key.as_str(), value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> de::Deserialize<'de> for Tree {
    fn deserialize<D: de::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_newtype_struct(WHOLE_BRANCH, WholeBranch)
    }
}

/// The newtype name that a [`Tree`] deserializes as. The deserializer over trees recognises it and passes the branch
/// whole; any other format deserializes its next value.
pub(crate) const WHOLE_BRANCH: &str = "$muster::Tree";

/// Receives a whole branch, or visits one value.
struct WholeBranch;

impl<'de> Visitor<'de> for WholeBranch {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_newtype_struct<D: de::Deserializer<'de>>(self, input: D) -> Result<Tree, D::Error> {
        Seed { depth: 0, path: &Path::Root, duplicates: &mut Vec::new() }.deserialize(input)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(crate::de::handed_over())
    }
}

/// The path of the parser as a chain of stack frames: formatted only if a duplicate is found.
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(above, key) => write!(f, "{above}.{key}"),
            Path::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// Deserializes a tree and records duplicate keys with their paths.
pub(crate) struct Seed<'a> {
    pub(crate) depth: usize,
    pub(crate) path: &'a Path<'a>,
    pub(crate) duplicates: &'a mut Vec<Duplicate>,
}

impl Seed<'_> {
    fn below<E: de::Error>(&self) -> Result<usize, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!(
                "exceeded max depth: more than {DEPTH_MAX} levels of nesting"
            )));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Tree;

    fn deserialize<D: de::Deserializer<'de>>(self, input: D) -> Result<Tree, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Tree, E> {
        Ok(Tree::Int(n))
    }

    #[expect(clippy::cast_precision_loss, reason = "a number too large for an integer is a float, as in Go")]
    fn visit_u64<E>(self, n: u64) -> Result<Tree, E> {
        Ok(i64::try_from(n).map_or(Tree::Float(n as f64), Tree::Int))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Tree, E> {
        Ok(Tree::Float(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let depth = self.below()?;
        let mut items = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(1024));
        loop {
            let path = Path::Item(self.path, items.len());
            let seed = Seed { depth, path: &path, duplicates: &mut *self.duplicates };
            match seq.next_element_seed(seed)? {
                Some(item) => items.push(item),
                None => break,
            }
        }
        Ok(Tree::List(ThinArc::from_header_and_iter((), items.into_iter())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let depth = self.below()?;
        let mut entries: Vec<(Text, Tree)> = Vec::with_capacity(map.size_hint().unwrap_or(8).min(1024));
        let mut sorted = true;
        while let Some(key) = map.next_key_seed(KeySeed)? {
            let path = Path::Key(self.path, &key);
            let value =
                map.next_value_seed(Seed { depth, path: &path, duplicates: &mut *self.duplicates })?;
            sorted = sorted && entries.last().is_none_or(|(last, _)| *last < key);
            entries.push((key, value));
        }
        if sorted {
            return Ok(Tree::from_sorted(entries));
        }
        let mut seen: Vec<&Text> = entries.iter().map(|(k, _)| k).collect();
        seen.sort_unstable();
        for pair in seen.windows(2) {
            if pair[0] == pair[1] {
                let twice = Duplicate(Path::Key(self.path, pair[0]).to_string());
                if self.duplicates.last() != Some(&twice) {
                    self.duplicates.push(twice);
                }
            }
        }
        Ok(Tree::map(entries))
    }
}

/// Deserializes a map key into a shared string.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Text;

    fn deserialize<D: de::Deserializer<'de>>(self, input: D) -> Result<Text, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text key")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_round_trips() {
        let text = r#"{"a":[1,-2,2.5,"x\"y",null,true,{}],"b":{"c":[]}}"#;
        assert_eq!(Tree::parse(text.as_bytes()).unwrap().to_json(), text);
    }

    #[test]
    fn duplicates_are_named_and_the_last_wins() {
        let text = br#"{"spec":{"b":[{"x":1,"x":2}],"a":1,"a":2}}"#;
        let (tree, duplicates) = Tree::parse_strict(text).unwrap();
        assert_eq!(tree.to_json(), r#"{"spec":{"a":2,"b":[{"x":2}]}}"#);
        let paths: Vec<_> = duplicates.into_iter().map(|d| d.0).collect();
        assert_eq!(paths, ["spec.b[0].x", "spec.a"]);
    }

    #[test]
    fn bad_input_is_refused_with_a_sentence() {
        for (text, words) in [
            (&b"{\"a\":"[..], "unexpected end of JSON input"),
            (b"{} {}", "after top-level value"),
            (b"{\"a\":\"\xff\"}", "invalid unicode"),
            (b"", "unexpected end of JSON input"),
        ] {
            let error = Tree::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Tree::parse(deep.as_bytes()).unwrap_err().to_string().contains("max depth"));
    }

    #[test]
    fn numbers_beyond_an_integer_become_floats() {
        assert_eq!(Tree::parse(b"9223372036854775807").unwrap(), Tree::Int(i64::MAX));
        assert_eq!(Tree::parse(b"9223372036854775808").unwrap(), Tree::Float(9_223_372_036_854_775_808.0));
    }
}
