//! Construction of trees: from Rust values, with the [`tree!`](crate::tree) macro, and by modifying a path.

use triomphe::ThinArc;

use crate::{Text, Tree, find};

impl Tree {
    /// A map of these entries; a later entry replaces an earlier one of the same key.
    pub fn map<K: Into<Text>, V: Into<Tree>>(entries: impl IntoIterator<Item = (K, V)>) -> Tree {
        let mut all: Vec<(Text, Tree)> = entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        if !all.is_sorted_by(|a, b| a.0 < b.0) {
            all.sort_by(|a, b| a.0.cmp(&b.0));
            // The sort is stable, so the last of equal keys is the one given last, and it must win.
            all.reverse();
            all.dedup_by(|a, b| a.0 == b.0);
            all.reverse();
        }
        Tree::from_sorted(all)
    }

    /// A map of entries that are sorted by key and unique.
    #[must_use]
    pub fn from_sorted(entries: Vec<(Text, Tree)>) -> Tree {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "map entries must be sorted and unique");
        Tree::Map(ThinArc::from_header_and_iter((), entries.into_iter()))
    }

    /// A list of these items.
    pub fn list<V: Into<Tree>>(items: impl IntoIterator<Item = V>) -> Tree {
        let items: Vec<Tree> = items.into_iter().map(Into::into).collect();
        Tree::List(ThinArc::from_header_and_iter((), items.into_iter()))
    }

    /// An empty map value.
    #[must_use]
    pub fn empty_map() -> Tree {
        Tree::from_sorted(Vec::new())
    }

    /// An empty list value.
    #[must_use]
    pub fn empty_list() -> Tree {
        Tree::list(Vec::<Tree>::new())
    }

    /// This map with `key` set; any other value is treated as an empty map.
    #[must_use]
    pub fn with_key(&self, key: &str, value: Tree) -> Tree {
        let old = self.entries();
        match find(old, key) {
            Ok(at) if old[at].1.same_branch(&value) => self.clone(),
            Ok(at) => {
                let mut entries = old.to_vec();
                entries[at].1 = value;
                Tree::from_sorted(entries)
            }
            Err(at) => {
                let mut entries = Vec::with_capacity(old.len() + 1);
                entries.extend_from_slice(&old[..at]);
                entries.push((Text::from(key), value));
                entries.extend_from_slice(&old[at..]);
                Tree::from_sorted(entries)
            }
        }
    }

    /// This map without `key`; the same allocation if the key is absent.
    #[must_use]
    pub fn without_key(&self, key: &str) -> Tree {
        let Ok(at) = find(self.entries(), key) else {
            return self.clone();
        };
        let mut entries = self.entries().to_vec();
        entries.remove(at);
        Tree::from_sorted(entries)
    }

    /// This tree with the value at `path` set; missing maps on the path are created.
    #[must_use]
    pub fn with(&self, path: &[&str], value: impl Into<Tree>) -> Tree {
        let value = value.into();
        match path {
            [] => value,
            [key] => self.with_key(key, value),
            [key, rest @ ..] => {
                let below = self.get(key).unwrap_or(&Tree::Null).with(rest, value);
                self.with_key(key, below)
            }
        }
    }

    /// This tree without the value at `path`; the same allocation if it is absent.
    #[must_use]
    pub fn without(&self, path: &[&str]) -> Tree {
        match path {
            [] => Tree::Null,
            [key] => self.without_key(key),
            [key, rest @ ..] => match self.get(key) {
                Some(below) if below.at(rest).is_some() => self.with_key(key, below.without(rest)),
                _ => self.clone(),
            },
        }
    }

    /// Sets or, with `None`, removes the value at `path`.
    #[must_use]
    pub fn with_option(&self, path: &[&str], value: Option<Tree>) -> Tree {
        match value {
            Some(value) => self.with(path, value),
            None => self.without(path),
        }
    }

    /// Applies `change` to this map without the branches shared with `other`, then adds them back.
    ///
    /// An optimization for changes that leave such branches unmodified. Returns the same allocation if nothing changed.
    #[must_use]
    pub fn except_shared(&self, other: &Tree, change: impl FnOnce(&Tree) -> Tree) -> Tree {
        let is_shared = |(key, value): &&(Text, Tree)| {
            (value.is_map() || value.is_list())
                && other.get(key).is_some_and(|there| there.same_branch(value))
        };
        let shared: Vec<&(Text, Tree)> = self.entries().iter().filter(is_shared).collect();
        if shared.is_empty() {
            return change(self);
        }
        let rest = self.entries().iter().filter(|entry| !is_shared(entry)).cloned();
        let rest = Tree::from_sorted(rest.collect());
        let changed = change(&rest);
        if changed.same_branch(&rest) {
            return self.clone();
        }
        shared.into_iter().fold(changed, |tree, (key, value)| tree.with_key(key, value.clone()))
    }

    /// Maps each entry through `change`; `None` removes the entry. Returns the same allocation if nothing changed.
    #[must_use]
    pub fn map_entries(&self, mut change: impl FnMut(&Text, &Tree) -> Option<Tree>) -> Tree {
        let all = self.entries();
        let mut made: Option<Vec<(Text, Tree)>> = None;
        for (at, (key, old)) in all.iter().enumerate() {
            let new = change(key, old);
            if made.is_none() && new.as_ref().is_some_and(|new| is_unchanged(old, new)) {
                continue;
            }
            // Most calls change nothing, so nothing is copied before the first changed entry.
            let made = made.get_or_insert_with(|| {
                let mut copy = Vec::with_capacity(all.len());
                copy.extend_from_slice(&all[..at]);
                copy
            });
            made.extend(new.map(|new| (key.clone(), new)));
        }
        made.map_or_else(|| self.clone(), Tree::from_sorted)
    }

    /// Maps each item through `change` with its index. Returns the same allocation if nothing changed.
    #[must_use]
    pub fn map_items(&self, mut change: impl FnMut(usize, &Tree) -> Tree) -> Tree {
        let mut made: Option<Vec<Tree>> = None;
        for (at, old) in self.items().iter().enumerate() {
            let new = change(at, old);
            if made.is_some() || !is_unchanged(old, &new) {
                made.get_or_insert_with(|| self.items().to_vec())[at] = new;
            }
        }
        made.map_or_else(|| self.clone(), Tree::list)
    }
}

/// Returns whether a change returned its input; compares branches by address only, so it is constant time.
fn is_unchanged(old: &Tree, new: &Tree) -> bool {
    match (old, new) {
        (Tree::List(_) | Tree::Map(_), _) => old.same_branch(new),
        _ => old == new,
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Tree::Text(Text::from(text))
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Tree::Text(Text::from(text))
    }
}

impl From<&String> for Tree {
    fn from(text: &String) -> Self {
        Tree::Text(Text::from(text.as_str()))
    }
}

impl From<Text> for Tree {
    fn from(text: Text) -> Self {
        Tree::Text(text)
    }
}

impl From<&Text> for Tree {
    fn from(text: &Text) -> Self {
        Tree::Text(text.clone())
    }
}

impl From<&Tree> for Tree {
    fn from(tree: &Tree) -> Self {
        tree.clone()
    }
}

impl From<bool> for Tree {
    fn from(b: bool) -> Self {
        Tree::Bool(b)
    }
}

impl From<i64> for Tree {
    fn from(n: i64) -> Self {
        Tree::Int(n)
    }
}

impl From<i32> for Tree {
    fn from(n: i32) -> Self {
        Tree::Int(n.into())
    }
}

impl From<u32> for Tree {
    fn from(n: u32) -> Self {
        Tree::Int(n.into())
    }
}

impl From<f64> for Tree {
    fn from(n: f64) -> Self {
        Tree::Float(n)
    }
}

impl<T: Into<Tree>> From<Option<T>> for Tree {
    fn from(value: Option<T>) -> Self {
        value.map_or(Tree::Null, Into::into)
    }
}

impl<T: Into<Tree>> From<Vec<T>> for Tree {
    fn from(items: Vec<T>) -> Self {
        Tree::list(items)
    }
}

/// Builds a tree from a JSON literal: `tree!({"kind": "Job", "spec": {"completions": n}})`.
///
/// Keys are literals; values are literals, nested maps and lists, or any expression that is `Into<Tree>`.
#[macro_export]
macro_rules! tree {
    (null) => { $crate::Tree::Null };
    ([ $($item:tt),* $(,)? ]) => { $crate::Tree::list([ $( $crate::tree!($item) ),* ] as [$crate::Tree; _]) };
    ({ }) => { $crate::Tree::empty_map() };
    ({ $($body:tt)+ }) => {{
        let mut entries: Vec<($crate::Text, $crate::Tree)> = Vec::new();
        $crate::tree!(@entries entries $($body)+);
        $crate::Tree::map(entries)
    }};
    (@entries $to:ident) => {};
    (@entries $to:ident , $($rest:tt)*) => { $crate::tree!(@entries $to $($rest)*) };
    (@entries $to:ident $key:literal : null $(, $($rest:tt)*)?) => {
        $to.push(($crate::literal!($key), $crate::Tree::Null));
        $( $crate::tree!(@entries $to $($rest)*); )?
    };
    (@entries $to:ident $key:literal : { $($map:tt)* } $(, $($rest:tt)*)?) => {
        $to.push(($crate::literal!($key), $crate::tree!({ $($map)* })));
        $( $crate::tree!(@entries $to $($rest)*); )?
    };
    (@entries $to:ident $key:literal : [ $($list:tt)* ] $(, $($rest:tt)*)?) => {
        $to.push(($crate::literal!($key), $crate::tree!([ $($list)* ])));
        $( $crate::tree!(@entries $to $($rest)*); )?
    };
    (@entries $to:ident $key:literal : $value:expr $(, $($rest:tt)*)?) => {
        $to.push(($crate::literal!($key), $crate::Tree::from($value)));
        $( $crate::tree!(@entries $to $($rest)*); )?
    };
    ($value:expr) => { $crate::Tree::from($value) };
}

#[cfg(test)]
mod tests {
    use crate::Tree;

    #[test]
    fn the_macro_writes_json() {
        let name = String::from("a");
        let made = tree!({"z": 1, "a": {"b": [1, "x", {"c": true}], "e": {}, "n": null}, "name": name.as_str(), "l": []});
        assert_eq!(
            made.to_json(),
            r#"{"a":{"b":[1,"x",{"c":true}],"e":{},"n":null},"l":[],"name":"a","z":1}"#
        );
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        assert_eq!(Tree::map([("a", 1), ("b", 2), ("a", 3)]), tree!({"a": 3, "b": 2}));
    }

    #[test]
    fn changing_a_path_shares_the_rest() {
        let old = tree!({"meta": {"name": "x"}, "spec": {"a": {"b": 1}}});
        let new = old.with(&["spec", "a", "c"], 2);
        assert_eq!(new, tree!({"meta": {"name": "x"}, "spec": {"a": {"b": 1, "c": 2}}}));
        assert!(new.get("meta").unwrap().same_branch(old.get("meta").unwrap()));
        assert_eq!(new.without(&["spec", "a", "c"]), old);
        assert!(old.without(&["spec", "none", "c"]).same_branch(&old));
    }

    #[test]
    fn mapping_to_the_same_shares_the_branch() {
        let old = tree!({"a": [1, {"b": 2}], "c": 3});
        assert!(old.map_entries(|_, v| Some(v.clone())).same_branch(&old));
        assert_eq!(old.map_entries(|k, v| (k != "c").then(|| v.clone())), tree!({"a": [1, {"b": 2}]}));
        assert_eq!(
            old.map_entries(|_, v| Some(if v.is_list() { v.clone() } else { Tree::Int(4) })),
            tree!({"a": [1, {"b": 2}], "c": 4})
        );
        let list = old.get("a").unwrap();
        assert!(list.map_items(|_, v| v.clone()).same_branch(list));
        assert_eq!(
            list.map_items(|at, v| if at == 0 { Tree::Int(9) } else { v.clone() }),
            tree!([9, {"b": 2}])
        );
    }

    #[test]
    fn a_change_can_skip_shared_branches() {
        let old = tree!({"kind": "K", "spec": {"a": 1}, "status": {"b": 2}});
        let new = old.with(&["status", "b"], 3);
        let mut seen = Tree::Null;
        let marked = new.except_shared(&old, |rest| {
            seen = rest.clone();
            rest.with_key("mark", Tree::Bool(true)).with_key("spec", Tree::empty_map())
        });
        assert_eq!(seen, tree!({"kind": "K", "status": {"b": 3}}), "the shared branch is not looked at");
        assert_eq!(marked, tree!({"kind": "K", "mark": true, "spec": {"a": 1}, "status": {"b": 3}}));
        assert!(new.except_shared(&old, Tree::clone).same_branch(&new), "no change, the same tree");
        assert_eq!(new.except_shared(&tree!({}), |all| all.without_key("kind")), new.without_key("kind"));
    }
}
