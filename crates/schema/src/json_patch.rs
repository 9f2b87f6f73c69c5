//! JSON patch (RFC 6902) on shared trees, with upstream's deviations from the RFC.
//!
//! As upstream's library does, `replace` may create a key, an operation without `value` means `null`, `copy` of a missing
//! key copies `null`, and a negative index counts from the end. No general-purpose crate does this, and none shares
//! unchanged branches.
//!
//! # Guarantees
//!
//! - At most [`OPERATIONS_MAX`] operations, and copies of at most [`COPY_BYTES_MAX`] bytes in total: a small patch cannot
//!   create a huge object.
//! - All or nothing: the first operation that fails rejects the patch.

use muster_tree::Tree;

pub use crate::patch::PatchError;
use crate::spelled::json_word;

/// Largest number of operations in one patch, upstream's limit.
pub const OPERATIONS_MAX: usize = 10_000;
/// Largest number of bytes that the `copy` operations of one patch may add, upstream's limit.
pub const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The keys of an operation.
const KEYS: [&str; 4] = ["op", "path", "from", "value"];

/// Validates the structure of a patch before any operation is applied; returns unknown keys, for strict field
/// validation.
///
/// # Errors
///
/// `Malformed` if it is not a list of operations.
pub fn check(operations: &Tree) -> Result<Vec<String>, PatchError> {
    if !matches!(operations, Tree::List(_) | Tree::Null) {
        return malformed(operations, "Go value of type []handlers.jsonPatchOp");
    }
    let mut unknown = Vec::new();
    for (at, operation) in operations.items().iter().enumerate() {
        check_operation(operation)?;
        let keys = operation.entries().iter().filter(|(key, _)| !KEYS.contains(&key.as_str()));
        unknown.extend(keys.map(|(key, _)| format!("[{at}].{key}")));
    }
    Ok(unknown)
}

fn check_operation(operation: &Tree) -> Result<(), PatchError> {
    if !matches!(operation, Tree::Map(_) | Tree::Null) {
        return malformed(operation, "Go value of type handlers.jsonPatchOp");
    }
    for name in ["op", "path", "from"] {
        let value = operation.get(name).unwrap_or(&Tree::Null);
        if !matches!(value, Tree::Text(_) | Tree::Null) {
            return malformed(value, &format!("Go struct field jsonPatchOp.{name} of type string"));
        }
    }
    Ok(())
}

fn malformed<T>(found: &Tree, wanted: &str) -> Result<T, PatchError> {
    let word = json_word(found);
    Err(PatchError::Malformed(format!("error decoding patch: json: cannot unmarshal {word} into {wanted}")))
}

/// Applies the operations to a document.
///
/// # Errors
///
/// `Malformed` as in [`check`], `TooLarge` if there are too many operations, `Unfit` if one of them does not apply.
pub fn apply(document: &Tree, operations: &Tree) -> Result<Tree, PatchError> {
    check(operations)?;
    let all = operations.items();
    if all.len() > OPERATIONS_MAX {
        let text =
            format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", all.len());
        return Err(PatchError::TooLarge(text));
    }
    let mut copied = 0;
    all.iter().try_fold(document.clone(), |doc, operation| step(&doc, operation, &mut copied))
}

fn step(doc: &Tree, operation: &Tree, copied: &mut usize) -> Result<Tree, PatchError> {
    let value = operation.get("value").cloned().unwrap_or_default();
    match operation.str_at(&["op"]) {
        "add" => change(doc, pointer(operation, "path")?, &mut |at, key| add(at, key, value.clone())),
        "remove" => change(doc, pointer(operation, "path")?, &mut remove),
        "replace" => replace(doc, pointer(operation, "path")?, &value),
        "test" => test(doc, pointer(operation, "path")?, &value).map(|()| doc.clone()),
        "copy" => {
            let value = find(doc, pointer(operation, "from")?)?;
            count_copy(&value, copied)?;
            change(doc, pointer(operation, "path")?, &mut |at, key| add(at, key, value.clone()))
        }
        "move" => {
            let from = pointer(operation, "from")?;
            let value = find(doc, from)?;
            let without = change(doc, from, &mut remove)?;
            change(&without, pointer(operation, "path")?, &mut |at, key| add(at, key, value.clone()))
        }
        other => unfit(format!("unexpected operation {other:?}")),
    }
}

fn unfit<T>(text: String) -> Result<T, PatchError> {
    Err(PatchError::Unfit(text))
}

fn pointer<'a>(operation: &'a Tree, name: &str) -> Result<&'a str, PatchError> {
    match operation.get(name).and_then(Tree::as_str) {
        Some(path) => Ok(path),
        None => unfit(format!("operation {:?} has no {name:?}", operation.str_at(&["op"]))),
    }
}

/// Counts the bytes of a copy: it is shared in memory but serialized in full.
fn count_copy(value: &Tree, copied: &mut usize) -> Result<(), PatchError> {
    *copied += value.to_json().len();
    if *copied > COPY_BYTES_MAX {
        return unfit(format!("copies of {copied} bytes in sum, the most is {COPY_BYTES_MAX}"));
    }
    Ok(())
}

fn replace(doc: &Tree, path: &str, value: &Tree) -> Result<Tree, PatchError> {
    match (path, value) {
        ("", Tree::Map(_) | Tree::List(_)) => Ok(value.clone()),
        ("", _) => unfit("the whole document can only be replaced by an object or a list".into()),
        _ => change(doc, path, &mut |at, key| set(at, key, value.clone())),
    }
}

fn test(doc: &Tree, path: &str, value: &Tree) -> Result<(), PatchError> {
    let found = if path.is_empty() { doc.clone() } else { find(doc, path)? };
    if found == *value { Ok(()) } else { unfit(format!("testing value {path} failed")) }
}

/// The value at a JSON pointer; a missing key of a map is `null`, a missing item of a list is an error.
fn find(doc: &Tree, path: &str) -> Result<Tree, PatchError> {
    let mut found = Tree::Null;
    change(doc, path, &mut |at, key| {
        found = get(at, key)?;
        Ok(at.clone())
    })?;
    Ok(found)
}

/// The modification of the container that a path ends in.
type Deed<'a> = &'a mut dyn FnMut(&Tree, &str) -> Result<Tree, PatchError>;

/// Applies `deed` to the container at the end of `path`.
fn change(doc: &Tree, path: &str, deed: Deed<'_>) -> Result<Tree, PatchError> {
    // Text before the first slash is ignored, as upstream's library does.
    match path.split_once('/') {
        Some((_, rest)) => descend(doc, rest, path, deed),
        None => unfit(format!("doc is missing path: {path:?}")),
    }
}

fn descend(at: &Tree, rest: &str, path: &str, deed: Deed<'_>) -> Result<Tree, PatchError> {
    if !matches!(at, Tree::Map(_) | Tree::List(_)) {
        return unfit(format!("doc is missing path: {path:?}"));
    }
    let Some((key, rest)) = rest.split_once('/') else {
        return deed(at, &unescape(rest));
    };
    let key = unescape(key);
    let below = descend(&get(at, &key)?, rest, path, deed)?;
    set(at, &key, below)
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

fn get(at: &Tree, key: &str) -> Result<Tree, PatchError> {
    match at {
        Tree::List(list) => index(key, list.slice.len()).map(|i| list.slice[i].clone()),
        _ => Ok(at.get(key).cloned().unwrap_or_default()),
    }
}

fn set(at: &Tree, key: &str, value: Tree) -> Result<Tree, PatchError> {
    let Tree::List(list) = at else {
        return Ok(at.with_key(key, value));
    };
    let mut items = list.slice.to_vec();
    let i = index(key, items.len())?;
    items[i] = value;
    Ok(Tree::list(items))
}

fn add(at: &Tree, key: &str, value: Tree) -> Result<Tree, PatchError> {
    let Tree::List(list) = at else {
        return Ok(at.with_key(key, value));
    };
    let mut items = list.slice.to_vec();
    let i = if key == "-" { items.len() } else { index(key, items.len() + 1)? };
    items.insert(i, value);
    Ok(Tree::list(items))
}

fn remove(at: &Tree, key: &str) -> Result<Tree, PatchError> {
    let Tree::List(list) = at else {
        if at.get(key).is_none() {
            return unfit(format!("unable to remove nonexistent key: {key}"));
        }
        return Ok(at.without_key(key));
    };
    let mut items = list.slice.to_vec();
    items.remove(index(key, list.slice.len())?);
    Ok(Tree::list(items))
}

/// The index that `key` names in a list of `len` items; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, PatchError> {
    let Ok(n) = key.parse::<isize>() else {
        return unfit(format!("value was not a proper array index: {key:?}"));
    };
    let len = len.cast_signed();
    let at = if n < 0 { n + len } else { n };
    if (0..len).contains(&at) {
        Ok(at.cast_unsigned())
    } else {
        unfit(format!("unable to access invalid index: {n}"))
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn run(operations: &Tree) -> Result<Tree, u16> {
        let document = tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "y"]});
        apply(&document, operations).map_err(|e| e.code())
    }

    #[test]
    fn operations_do_what_kubernetes_does() {
        for (says, operation, want) in [
            (
                "a key is added",
                tree!({"op": "add", "path": "/data/c", "value": "3"}),
                Some(tree!({"data": {"a": "1", "b": "2", "c": "3"}, "list": ["x", "y"]})),
            ),
            (
                "an item is inserted",
                tree!({"op": "add", "path": "/list/1", "value": "z"}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "z", "y"]})),
            ),
            (
                "an item is appended",
                tree!({"op": "add", "path": "/list/-", "value": "z"}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "y", "z"]})),
            ),
            (
                "the last place by a negative index",
                tree!({"op": "add", "path": "/list/-1", "value": "z"}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "y", "z"]})),
            ),
            (
                "the last item by a negative index",
                tree!({"op": "replace", "path": "/list/-1", "value": "z"}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "z"]})),
            ),
            (
                "replace may make a key",
                tree!({"op": "replace", "path": "/data/c", "value": "3"}),
                Some(tree!({"data": {"a": "1", "b": "2", "c": "3"}, "list": ["x", "y"]})),
            ),
            (
                "no value means null",
                tree!({"op": "add", "path": "/data/c"}),
                Some(tree!({"data": {"a": "1", "b": "2", "c": null}, "list": ["x", "y"]})),
            ),
            (
                "escaped slash and tilde",
                tree!({"op": "add", "path": "/data/c~1~0", "value": "3"}),
                Some(tree!({"data": {"a": "1", "b": "2", "c/~": "3"}, "list": ["x", "y"]})),
            ),
            (
                "a key is removed",
                tree!({"op": "remove", "path": "/data/a"}),
                Some(tree!({"data": {"b": "2"}, "list": ["x", "y"]})),
            ),
            (
                "a key is moved",
                tree!({"op": "move", "from": "/data/a", "path": "/data/c"}),
                Some(tree!({"data": {"b": "2", "c": "1"}, "list": ["x", "y"]})),
            ),
            (
                "a key is copied",
                tree!({"op": "copy", "from": "/data/a", "path": "/list/0"}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["1", "x", "y"]})),
            ),
            (
                "a missing key copies as null",
                tree!({"op": "copy", "from": "/data/z", "path": "/data/c"}),
                Some(tree!({"data": {"a": "1", "b": "2", "c": null}, "list": ["x", "y"]})),
            ),
            (
                "a test that holds",
                tree!({"op": "test", "path": "/data", "value": {"a": "1", "b": "2"}}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "y"]})),
            ),
            (
                "a missing key is null",
                tree!({"op": "test", "path": "/data/z", "value": null}),
                Some(tree!({"data": {"a": "1", "b": "2"}, "list": ["x", "y"]})),
            ),
            (
                "the whole document",
                tree!({"op": "replace", "path": "", "value": {"c": 1}}),
                Some(tree!({"c": 1})),
            ),
            ("a test that fails", tree!({"op": "test", "path": "/data/a", "value": "2"}), None),
            ("a test of a missing item", tree!({"op": "test", "path": "/list/2", "value": null}), None),
            ("nothing to remove", tree!({"op": "remove", "path": "/data/z"}), None),
            ("no such parent", tree!({"op": "add", "path": "/none/z", "value": 1}), None),
            ("a parent that is text", tree!({"op": "add", "path": "/data/a/x", "value": 1}), None),
            ("an index beyond the end", tree!({"op": "add", "path": "/list/5", "value": 1}), None),
            ("an index that is a word", tree!({"op": "add", "path": "/list/x", "value": 1}), None),
            ("a missing item is not replaced", tree!({"op": "replace", "path": "/list/2", "value": 1}), None),
            ("no such operation", tree!({"op": "frob", "path": "/data/a"}), None),
            ("no operation", tree!({"path": "/data/a"}), None),
            ("no path", tree!({"op": "add", "value": 1}), None),
            ("no source", tree!({"op": "copy", "path": "/data/c"}), None),
            ("the document cannot be removed", tree!({"op": "remove", "path": ""}), None),
            ("the document cannot be a number", tree!({"op": "replace", "path": "", "value": 1}), None),
            ("a missing key cannot move", tree!({"op": "move", "from": "/data/z", "path": "/data/c"}), None),
        ] {
            assert_eq!(run(&Tree::list([operation])), want.ok_or(422), "{says}");
        }
    }

    #[test]
    fn a_malformed_patch_is_rejected_as_a_whole() {
        for (malformed, want) in [
            (tree!({"op": "add"}), "object into Go value of type []handlers.jsonPatchOp"),
            (tree!([1]), "number into Go value of type handlers.jsonPatchOp"),
            (tree!([{"op": 1, "path": "/a"}]), "number into Go struct field jsonPatchOp.op of type string"),
            (
                tree!([{"op": "add", "path": true}]),
                "bool into Go struct field jsonPatchOp.path of type string",
            ),
            (
                tree!([{"op": "test", "path": "/data/a", "value": "2"}, "x"]),
                "string into Go value of type handlers.jsonPatchOp",
            ),
        ] {
            assert_eq!(run(&malformed), Err(400), "{malformed}");
            let text = format!("error decoding patch: json: cannot unmarshal {want}");
            assert_eq!(check(&malformed).unwrap_err().to_string(), text, "{malformed}");
        }
        let odd = tree!([{"op": "test", "path": "/data/a", "value": "1", "note": 1}, {"x": 1}]);
        assert_eq!(check(&odd).unwrap(), ["[0].note", "[1].x"]);
        let same = tree!({"data": {"a": "1"}});
        assert!(apply(&same, &tree!([])).unwrap().same_branch(&same));
        assert!(apply(&same, &Tree::Null).unwrap().same_branch(&same));
    }

    #[test]
    fn operations_and_copies_are_bounded() {
        let test = tree!({"op": "test", "path": "/data/a", "value": "1"});
        assert!(run(&Tree::list(vec![test.clone(); OPERATIONS_MAX])).is_ok());
        let error = apply(&tree!({}), &Tree::list(vec![test; OPERATIONS_MAX + 1])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let big = tree!({"a": "x".repeat(1024 * 1024)});
        let copy = |n: usize| tree!({"op": "copy", "from": "/a", "path": format!("/b{n}")});
        assert!(apply(&big, &Tree::list((0..2).map(copy))).is_ok());
        assert_eq!(apply(&big, &Tree::list((0..3).map(copy))).unwrap_err().code(), 422);
    }

    #[test]
    fn branches_outside_a_patch_are_shared() {
        let old = tree!({"data": {"a": "1"}, "list": ["x"]});
        let new = apply(&old, &tree!([{"op": "add", "path": "/data/b", "value": "2"}])).unwrap();
        assert!(new.get("list").unwrap().same_branch(old.get("list").unwrap()));
    }
}
