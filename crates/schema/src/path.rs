//! The current path of a traversal, as a chain of stack frames.
//!
//! The path is formatted, and memory allocated, only when an error is reported.

use std::fmt;

/// A path within an object.
pub(crate) enum Path<'a> {
    /// The root, with the prefix of all paths.
    Root(&'a str),
    /// Under a key of a map.
    Key(&'a Path<'a>, &'a str),
    /// An index of a list.
    Item(&'a Path<'a>, usize),
    /// A key of `additionalProperties`, formatted in brackets.
    Entry(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    /// The place under `key`.
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// The place of item `index`.
    pub(crate) fn item(&'a self, index: usize) -> Path<'a> {
        Path::Item(self, index)
    }

    /// The place under the free key `key`.
    pub(crate) fn entry(&'a self, key: &'a str) -> Path<'a> {
        Path::Entry(self, key)
    }

    /// The path without the prefix of the root, as messages name the value.
    pub(crate) fn body(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false).expect("writing to text cannot fail");
        text
    }

    fn write(&self, out: &mut impl fmt::Write, whole: bool) -> fmt::Result {
        match self {
            Path::Root(base) if whole => out.write_str(base),
            Path::Root(_) => Ok(()),
            Path::Key(above, key) => {
                above.write(out, whole)?;
                let first = matches!(above, Path::Root(base) if !whole || base.is_empty());
                out.write_str(if first { "" } else { "." })?;
                out.write_str(key)
            }
            Path::Item(above, index) => {
                above.write(out, whole)?;
                write!(out, "[{index}]")
            }
            Path::Entry(above, key) => {
                above.write(out, whole)?;
                write!(out, "[{key}]")
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_spelled_as_clients_know_them() {
        let root = Path::Root("");
        let spec = root.key("spec");
        let list = spec.key("containers");
        let item = list.item(2);
        assert_eq!(item.key("image").to_string(), "spec.containers[2].image");
        let based = Path::Root("x.default");
        assert_eq!(based.key("a").to_string(), "x.default.a");
        assert_eq!(based.key("a").body(), "a");
        assert_eq!((based.to_string(), based.body()), ("x.default".into(), String::new()));
    }
}
