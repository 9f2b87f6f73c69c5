//! Pod sets that a pod declares for its group in an annotation.
//!
//! The text is JSON or YAML. The example in the proposal is neither (a block mapping inside a flow mapping), and
//! has `requests` where a container has no such field. Both are accepted.
//!
//! # Guarantees
//!
//! - The result has 1 to [`SETS_MAX`] pod sets with unique names and counts of at least 1.
//! - Text that is valid JSON or YAML is never parsed by the tolerant parser.

use std::collections::BTreeSet;

use muster_api::paths::{container, pod};
use muster_schema::names;
use muster_tree::{Text, Tree};

/// Bound on the pod sets of a Workload.
pub const SETS_MAX: usize = 18;

const NAME: &str = "name";
const COUNT: &str = "count";
const MIN_COUNT: &str = "minCount";
const TEMPLATE: &str = "template";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredPodSet {
    pub name: Text,
    pub count: u32,
    /// None: the template of the first pod of the role is used.
    pub template: Option<Tree>,
}

/// Parses declared pod sets.
///
/// # Errors
/// The problem, with the index of the entry where it belongs to one.
pub fn read(text: &str) -> Result<Vec<DeclaredPodSet>, String> {
    let list = parse(text)?;
    if !list.is_list() {
        return Err(format!("must be a list of pod sets, and is of type {}", list.type_word()));
    }
    let entries = list.items();
    if entries.is_empty() {
        return Err("must declare at least one pod set".to_owned());
    }
    if entries.len() > SETS_MAX {
        return Err(format!("must declare at most {SETS_MAX} pod sets, entry {SETS_MAX} is one too many"));
    }
    let mut names = BTreeSet::new();
    let mut all = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let set = one(entry).map_err(|why| format!("entry {at}: {why}"))?;
        if !names.insert(set.name.clone()) {
            return Err(format!("entry {at}: name {:?} stands there twice", set.name.as_str()));
        }
        all.push(set);
    }
    Ok(all)
}

fn parse(text: &str) -> Result<Tree, String> {
    if let Ok(tree) = Tree::parse(text.as_bytes()) {
        return Ok(tree);
    }
    match Tree::parse_yaml(text) {
        Ok(tree) => Ok(tree),
        Err(why) => parse_tolerant(text).map_err(|entry| match entry {
            Some(entry) => entry,
            None => format!("must be JSON or YAML: {why}"),
        }),
    }
}

fn one(entry: &Tree) -> Result<DeclaredPodSet, String> {
    if !entry.is_map() {
        return Err(format!("must be an object, and is of type {}", entry.type_word()));
    }
    let unknown =
        entry.entries().iter().find(|(key, _)| ![NAME, COUNT, MIN_COUNT, TEMPLATE].contains(&key.as_str()));
    if let Some((key, _)) = unknown {
        return Err(format!("unknown field {:?}, a pod set has name, count and template", key.as_str()));
    }
    // Pod groups are admitted as a whole.
    if entry.get(MIN_COUNT).is_some_and(|least| !least.is_null()) {
        return Err("minCount may not be set: groups of pods are admitted whole".to_owned());
    }
    let name = entry.text_at(&[NAME]);
    if let Some(why) = names::label(&name).into_iter().next() {
        return Err(format!("name {:?}: {why}", name.as_str()));
    }
    let count = match entry.get(COUNT) {
        // `count` defaults to 1, as in the Workload API.
        None | Some(Tree::Null) => 1,
        Some(count) => at_least_one(count)?,
    };
    Ok(DeclaredPodSet { name, count, template: template(entry.get(TEMPLATE))? })
}

fn at_least_one(count: &Tree) -> Result<u32, String> {
    let number = count.as_int().and_then(|it| i32::try_from(it).ok()).filter(|it| *it >= 1);
    number
        .map(i32::unsigned_abs)
        .ok_or_else(|| format!("count {count} must be a whole number from 1 to {}", i32::MAX))
}

/// Normalizes a template; an empty one is None.
fn template(tree: Option<&Tree>) -> Result<Option<Tree>, String> {
    let Some(tree) = tree.filter(|tree| !tree.is_empty()) else { return Ok(None) };
    let spec = tree.get("spec").filter(|spec| !spec.is_empty());
    match spec {
        None if tree.is_map() => Ok(None),
        Some(spec) if spec.is_map() => {
            let lists = [pod::CONTAINERS, pod::INIT_CONTAINERS];
            Ok(Some(lists.iter().fold(tree.clone(), |tree, list| match tree.at(list) {
                Some(items) => tree.with(list, items.map_items(|_, item| with_requests(item))),
                None => tree,
            })))
        }
        _ => Err("template must be a pod template".to_owned()),
    }
}

/// Moves `requests` of a container into `resources`.
fn with_requests(item: &Tree) -> Tree {
    let Some(requests) = item.get("requests").filter(|it| it.is_map()) else { return item.clone() };
    let bare = item.without_key("requests");
    match bare.at(container::REQUESTS) {
        Some(_) => bare,
        None => bare.with(container::REQUESTS, requests.clone()),
    }
}

/// Parses a flow list of block mappings in braces, as in the proposal. The error is None if the text is not of this
/// form.
fn parse_tolerant(text: &str) -> Result<Tree, Option<String>> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or(None)?;
    let pieces = outermost_braces(inner).ok_or(None)?;
    let read = |(at, piece): (usize, &String)| {
        let flow = Tree::parse_yaml(&format!("{{{piece}}}"));
        flow.or_else(|_| Tree::parse_yaml(&without_commas(piece)))
            .map_err(|why| Some(format!("entry {at}: {why}")))
    };
    let all: Result<Vec<Tree>, Option<String>> = pieces.iter().enumerate().map(read).collect();
    all.map(Tree::list)
}

/// The texts between the outermost braces; None if there is anything beside them.
fn outermost_braces(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    let mut piece = String::new();
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') if depth > 0 && !before.is_alphanumeric() => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') => depth = depth.checked_sub(1)?,
            (None, _) if depth == 0 && c != ',' && !c.is_whitespace() => return None,
            (None | Some(_), _) => {}
        }
        match (depth, c) {
            (0, '}') => all.push(std::mem::take(&mut piece)),
            (0, _) => {}
            (1, '{') if piece.is_empty() => {}
            _ => piece.push(c),
        }
        before = c;
    }
    (depth == 0).then_some(all)
}

fn without_commas(piece: &str) -> String {
    let bare = |line: &str| line.trim_end().trim_end_matches(',').to_owned();
    piece.lines().map(bare).collect::<Vec<_>>().join("\n")
}
