//! Typed deserialization from a tree: a serde `Deserializer` over `&Tree`, without serializing it first.

use std::cell::Cell;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::json::WHOLE_BRANCH;
use crate::{Text, Tree};

thread_local! {
    /// Passes a branch from the deserializer to a field of type [`Tree`] without copying it: serde has no other channel.
    static HANDED_OVER: Cell<Tree> = const { Cell::new(Tree::Null) };
}

/// Takes the branch that the deserializer has just passed.
pub(crate) fn handed_over() -> Tree {
    HANDED_OVER.take()
}

/// Why a tree cannot be deserialized into a type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl de::Error for ReadError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        ReadError(message.to_string())
    }
}

/// Deserializes a tree into a value of type `T`.
pub fn from_tree<T: DeserializeOwned>(tree: &Tree) -> Result<T, ReadError> {
    T::deserialize(tree)
}

impl<'de> de::Deserializer<'de> for &'de Tree {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(b) => visitor.visit_bool(*b),
            Tree::Int(n) => visitor.visit_i64(*n),
            Tree::Float(n) => visitor.visit_f64(*n),
            Tree::Text(text) => visitor.visit_borrowed_str(text),
            Tree::List(items) => visitor.visit_seq(Items(items.slice.iter())),
            Tree::Map(entries) => visitor.visit_map(Entries { rest: entries.slice.iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Tree::Null => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == WHOLE_BRANCH {
            HANDED_OVER.set(self.clone());
            return visitor.visit_unit();
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self {
            Tree::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            // As in serde_json, a variant with content is a map with one entry: its name and its content.
            Tree::Map(entries) if entries.slice.len() == 1 => {
                let entries = Entries { rest: entries.slice.iter(), value: None };
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            other => Err(de::Error::custom(format_args!("expected a word, found {}", other.type_word()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'de>(std::slice::Iter<'de, Tree>);

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, (Text, Tree)>,
    value: Option<&'de Tree>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let key: StrDeserializer<'de, ReadError> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        seed.deserialize(self.value.take().expect("serde asks for a value only after its key"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[derive(serde::Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        max_restarts: i32,
        #[serde(default)]
        mode: Option<Mode>,
        names: Vec<String>,
        template: Tree,
    }

    #[derive(serde::Deserialize, Debug, PartialEq)]
    enum Mode {
        All,
        Any,
        Some { count: u32 },
    }

    #[test]
    fn structs_are_read_and_branches_kept() {
        let tree =
            tree!({"maxRestarts": 3, "mode": "Any", "names": ["a"], "template": {"new": [1]}, "extra": 1});
        let want = Sample {
            max_restarts: 3,
            mode: Some(Mode::Any),
            names: vec!["a".into()],
            template: tree!({"new": [1]}),
        };
        let read = from_tree::<Sample>(&tree).unwrap();
        assert_eq!(read, want);
        assert!(read.template.same_branch(tree.get("template").unwrap()), "taken out whole, not copied");
        for (tree, want) in
            [(tree!("All"), Mode::All), (tree!({"Some": {"count": 2}}), Mode::Some { count: 2 })]
        {
            assert_eq!(from_tree::<Mode>(&tree).unwrap(), want);
        }
        assert!(from_tree::<Mode>(&tree!({"All": null, "Any": null})).is_err(), "one variant at a time");
        assert!(from_tree::<Sample>(&tree!({"maxRestarts": "x"})).is_err());
    }
}
