//! Type checks of built-in kinds, with the error messages of upstream's decoder.
//!
//! Messages name Go types, because clients compare them. A path consists of field names only, without indexes and map
//! keys, as in upstream's decoder.

use muster_tree::Tree;

use crate::formats::{self, TimeLayout};
use crate::node::{Shape, View};

/// Where the decoder stands: the chain of fields, and the type that the last field belongs to.
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    owner: &'a str,
    field: &'a str,
}

impl Place<'_> {
    fn path(&self) -> String {
        match self.above {
            Some(above) => format!("{}.{}", above.path(), self.field),
            None => self.field.to_owned(),
        }
    }
}

/// Whether every value is of the type its schema says; the error is the sentence after
/// `X in version "v1" cannot be handled as a X: `.
pub fn check_types(view: View<'_>, tree: &Tree) -> Result<(), String> {
    check(view, tree, None)
}

/// The same for the metadata of a custom resource: all of it that the real server decodes by type.
pub fn check_metadata(view: View<'_>, tree: &Tree) -> Result<(), String> {
    match (view.below("metadata"), tree.get("metadata")) {
        (Some(view), Some(metadata)) => check(view, metadata, None),
        _ => Ok(()),
    }
}

fn check(view: View<'_>, tree: &Tree, place: Option<&Place<'_>>) -> Result<(), String> {
    let node = view.node();
    if node.int_or_string {
        return check_int_or_text(view, tree, place);
    }
    if node.format == "quantity" {
        return formats::quantity_field(tree).map_err(str::to_owned);
    }
    match (&node.shape, tree) {
        (_, Tree::Null) | (Shape::Any, _) | (Shape::Bool, Tree::Bool(_)) => Ok(()),
        (Shape::Number, Tree::Int(_) | Tree::Float(_)) => Ok(()),
        (Shape::Int, Tree::Int(n)) if fits(*n, &node.format) => Ok(()),
        (Shape::Int, Tree::Int(_) | Tree::Float(_)) => Err(mismatch(view, &format!("number {tree}"), place)),
        (Shape::Text, Tree::Text(text)) => check_text(view, text),
        (Shape::List(item), Tree::List(_)) => {
            let item = view.to(*item);
            tree.items().iter().try_for_each(|value| check(item, value, place))
        }
        (Shape::Map(values), Tree::Map(_)) => {
            let values = view.to(*values);
            tree.entries().iter().try_for_each(|(_, value)| check(values, value, place))
        }
        (Shape::Fields(_), Tree::Map(_)) => check_fields(view, tree, place),
        _ => Err(mismatch(view, found(tree), place)),
    }
}

fn check_fields(view: View<'_>, tree: &Tree, place: Option<&Place<'_>>) -> Result<(), String> {
    let owner = view.node().name.rsplit('.').next().unwrap_or_default();
    for (key, value) in tree.entries() {
        if let Some(below) = view.below(key) {
            check(below, value, Some(&Place { above: place, owner, field: key }))?;
        }
    }
    Ok(())
}

fn check_int_or_text(view: View<'_>, tree: &Tree, place: Option<&Place<'_>>) -> Result<(), String> {
    match tree {
        Tree::Null | Tree::Text(_) => Ok(()),
        Tree::Int(n) if i32::try_from(*n).is_ok() => Ok(()),
        Tree::Int(_) | Tree::Float(_) => Err(mismatch(view, &format!("number {tree}"), place)),
        other => Err(mismatch(view, found(other), place)),
    }
}

fn check_text(view: View<'_>, text: &str) -> Result<(), String> {
    match view.node().format.as_str() {
        "date-time" => formats::go_time(text, TimeLayout::Seconds),
        "micro-time" => formats::go_time(text, TimeLayout::Micros),
        "byte" => formats::base64_error(text).map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

fn fits(n: i64, format: &str) -> bool {
    match format {
        "int32" => i32::try_from(n).is_ok(),
        "uint32" => u32::try_from(n).is_ok(),
        _ => true,
    }
}

fn mismatch(view: View<'_>, found: &str, place: Option<&Place<'_>>) -> String {
    let wanted = go_type(view);
    match place {
        Some(place) => {
            let (owner, path) = (place.owner, place.path());
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
        }
        None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
    }
}

fn found(tree: &Tree) -> &'static str {
    match tree {
        Tree::Bool(_) => "bool",
        Tree::Int(_) | Tree::Float(_) => "number",
        other => other.type_word(),
    }
}

/// The Go type of a node, as far as the schema determines it.
fn go_type(view: View<'_>) -> String {
    let node = view.node();
    match &node.shape {
        _ if node.int_or_string => "int32".into(),
        Shape::Any => "interface {}".into(),
        Shape::Bool => "bool".into(),
        Shape::Int if node.format == "int32" => "int32".into(),
        Shape::Int => "int64".into(),
        Shape::Number => "float64".into(),
        Shape::Text if node.format == "byte" => "[]uint8".into(),
        Shape::Text => "string".into(),
        Shape::List(item) => format!("[]{}", go_type(view.to(*item))),
        Shape::Map(values) => format!("map[string]{}", go_type(view.to(*values))),
        Shape::Fields(_) => {
            let mut words = node.name.rsplitn(3, '.');
            let name = words.next().unwrap_or_default();
            words.next().map_or_else(|| "object".into(), |package| format!("{package}.{name}"))
        }
    }
}
