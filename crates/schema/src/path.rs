//! Where a walk over an object stands, as a chain of stack frames.
//!
//! Nothing is spelled out, and nothing allocated, until something has to be reported.

use std::fmt;

/// A place in an object.
pub(crate) enum Path<'a> {
    /// The start of the walk, with what stands in front of every path.
    Root(&'a str),
    /// Under a key of a map.
    Key(&'a Path<'a>, &'a str),
    /// At a position of a list.
    Item(&'a Path<'a>, usize),
    /// Under a free key of a map, shown in brackets.
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

    /// The path without what stands in front: the name of the value in messages.
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
