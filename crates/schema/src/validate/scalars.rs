//! Validation of types, strings, numbers and enums.

use muster_tree::Tree;

use super::{Level, NOWHERE, Walk};
use crate::error::FieldError;
use crate::node::{Bounds, Node, Shape, View};
use crate::path::Path;
use crate::{formats, pattern};

/// Beyond this a float no longer holds every whole number.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

impl Walk {
    pub(super) fn check_type(&mut self, view: View<'_>, level: Level, new: &Tree, path: &Path<'_>) {
        let node = view.node();
        if new.is_null() && node.nullable {
            return;
        }
        if let Some(wanted) = wanted(node, level).filter(|_| !has_type(node, new)) {
            let formal = has_known_format(node);
            let (wanted, found) =
                if formal { by_format(node, wanted, new) } else { (wanted, new.type_word()) };
            let detail = format!("{} in body must be of type {wanted}: {found:?}", path.body());
            self.errors.push(FieldError::type_invalid(path.to_string(), found, detail));
        }
        if !node.format.is_empty() || matches!(node.shape, Shape::Int) {
            self.check_format(node, new, path);
        }
    }

    /// Formats of text, and the ranges of numbers.
    fn check_format(&mut self, node: &Node, new: &Tree, path: &Path<'_>) {
        match new {
            Tree::Text(text) if formats::matches(&node.format, text) == Some(false) => {
                let detail = format!("{} in body must be of type {}: {text:?}", path.body(), node.format);
                self.errors.push(FieldError::type_invalid(path.to_string(), text, detail));
            }
            Tree::Int(_) | Tree::Float(_) if !is_in_range(node, new) => {
                let (kind, format) = (number_word(node), node.format.as_str());
                let how = if matches!(format, "int32" | "int64" | "float" | "double") {
                    format!("with format {format}")
                } else {
                    "(default format)".to_owned()
                };
                let detail = format!("Checked value must be of type {kind} {how} in {}", path.body());
                self.errors.push(FieldError::invalid(NOWHERE, "", detail));
            }
            _ => {}
        }
    }

    pub(super) fn check_text(&mut self, bounds: &Bounds, text: &str, path: &Path<'_>) {
        let length = |limit: &u64| text.chars().count() as u64 > *limit;
        if let Some(max) = bounds.max_length.filter(length) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            return self.errors.push(FieldError::too_long(path.to_string(), max));
        }
        let short = |min: &u64| (text.chars().count() as u64) < *min;
        if let Some(min) = bounds.min_length.filter(short) {
            return self.wrong(text, path, &format!("should be at least {min} chars long"));
        }
        if let Some(words) = &bounds.pattern
            && !pattern::matches(bounds, text)
        {
            self.wrong(text, path, &format!("should match '{words}'"));
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the real server cuts bounds to whole numbers as well"
    )]
    pub(super) fn check_int(&mut self, bounds: &Bounds, n: i64, path: &Path<'_>) {
        if let Some(factor) = bounds.multiple_of.map(|f| f as i64).filter(|f| *f > 0 && n % f != 0) {
            self.wrong(n, path, &format!("should be a multiple of {factor}"));
        }
        if let Some((min, excluded)) = bounds.minimum.map(|(min, excluded)| (min as i64, excluded))
            && (n < min || (excluded && n == min))
        {
            self.wrong(n, path, &format!("should be greater than {}{min}", or_equal(excluded)));
        }
        if let Some((max, excluded)) = bounds.maximum.map(|(max, excluded)| (max as i64, excluded))
            && (n > max || (excluded && n == max))
        {
            self.wrong(n, path, &format!("should be less than {}{max}", or_equal(excluded)));
        }
    }

    pub(super) fn check_float(&mut self, bounds: &Bounds, n: f64, path: &Path<'_>) {
        if let Some(factor) = bounds.multiple_of.filter(|f| *f > 0.0 && !is_whole(n / f)) {
            self.wrong(n, path, &format!("should be a multiple of {factor}"));
        }
        if let Some((min, excluded)) = bounds.minimum
            && (n < min || (excluded && n <= min))
        {
            self.wrong(n, path, &format!("should be greater than {}{min}", or_equal(excluded)));
        }
        if let Some((max, excluded)) = bounds.maximum
            && (n > max || (excluded && n >= max))
        {
            self.wrong(n, path, &format!("should be less than {}{max}", or_equal(excluded)));
        }
    }

    pub(super) fn check_enum(&mut self, bounds: &Bounds, new: &Tree, path: &Path<'_>) {
        if bounds.allowed.is_empty() || bounds.allowed.iter().any(|allowed| is_same_number(allowed, new)) {
            return;
        }
        let words: Vec<String> = bounds.allowed.iter().map(word).collect();
        let words = words.iter().map(String::as_str);
        self.errors.push(FieldError::not_supported(path.to_string(), new, words));
    }

    fn wrong(&mut self, value: impl Into<Tree>, path: &Path<'_>, what: &str) {
        let detail = format!("{} in body {what}", path.body());
        self.errors.push(FieldError::invalid(path.to_string(), value, detail));
    }
}

fn or_equal(excluded: bool) -> &'static str {
    if excluded { "" } else { "or equal to " }
}

fn word(value: &Tree) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

fn is_same_number(allowed: &Tree, new: &Tree) -> bool {
    allowed == new || (allowed.as_float().is_some() && allowed.as_float() == new.as_float())
}

/// The word for the type a node wants; none when it wants none.
fn wanted(node: &Node, level: Level) -> Option<&'static str> {
    if node.int_or_string {
        return Some("integer,string");
    }
    match (&node.shape, level) {
        (Shape::Any, _) => None,
        (Shape::Bool, _) => Some("boolean"),
        (Shape::Int, _) => Some("integer"),
        (Shape::Number, _) => Some("number"),
        (Shape::Text, _) => Some("string"),
        (Shape::List(_), Level::Structure) => Some("array"),
        (Shape::Map(_) | Shape::Fields(_), Level::Structure) => Some("object"),
        (_, Level::Clause) => None,
    }
}

fn has_type(node: &Node, new: &Tree) -> bool {
    match (&node.shape, new) {
        (_, Tree::Text(_) | Tree::Int(_)) if node.int_or_string => true,
        (_, Tree::Float(n)) if node.int_or_string => is_whole(*n),
        _ if node.int_or_string => false,
        (Shape::Any, _)
        | (Shape::Bool, Tree::Bool(_))
        | (Shape::Int, Tree::Int(_))
        | (Shape::Number, Tree::Int(_) | Tree::Float(_))
        | (Shape::Text, Tree::Text(_))
        | (Shape::List(_), Tree::List(_))
        | (Shape::Map(_) | Shape::Fields(_), Tree::Map(_)) => true,
        (Shape::Int, Tree::Float(n)) => is_whole(*n),
        _ => false,
    }
}

fn has_known_format(node: &Node) -> bool {
    match node.shape {
        Shape::Int => matches!(node.format.as_str(), "int32" | "int64"),
        Shape::Number => matches!(node.format.as_str(), "float" | "double"),
        Shape::Text => formats::matches(&node.format, "").is_some(),
        _ => false,
    }
}

/// Where a format is known, the real server speaks of formats instead of types, but for text and lists.
fn by_format<'n>(node: &'n Node, wanted: &'n str, new: &Tree) -> (&'n str, &'static str) {
    match new {
        Tree::Null | Tree::Text(_) | Tree::List(_) => (wanted, new.type_word()),
        Tree::Int(_) => (node.format.as_str(), "int64"),
        Tree::Float(_) => (node.format.as_str(), "float64"),
        Tree::Bool(_) | Tree::Map(_) => (node.format.as_str(), ""),
    }
}

fn number_word(node: &Node) -> &'static str {
    if matches!(node.shape, Shape::Int) { "integer" } else { "number" }
}

#[expect(clippy::cast_possible_truncation, reason = "that is the question asked")]
fn is_in_range(node: &Node, new: &Tree) -> bool {
    match (&node.shape, new) {
        (Shape::Int, Tree::Int(n)) => node.format != "int32" || i32::try_from(*n).is_ok(),
        (Shape::Int, Tree::Float(n)) => {
            is_whole(*n) && (node.format != "int32" || i32::try_from(*n as i64).is_ok())
        }
        (Shape::Number, Tree::Float(n)) => node.format != "float" || (*n as f32).is_finite(),
        _ => true,
    }
}

/// Whether a float stands for a whole number that it holds exactly.
fn is_whole(n: f64) -> bool {
    n.fract() == 0.0 && n.abs() <= WHOLE_FLOAT_MAX
}
