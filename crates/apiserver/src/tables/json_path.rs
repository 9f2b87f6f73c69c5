//! The part of kubectl's JSONPath that printer columns, selectable fields and scale paths use.
//!
//! Supported: `.name`, `['name']`, `["name"]`, `[3]`, `[-1]`, `[*]`, `.*`, `[1:3]` and filters that compare one
//! relative path with a literal (`[?(@.type=="Ready")]`, also `!=`) or test existence (`[?(@.type)]`).
//!
//! # Deliberately absent
//!
//! Recursive descent, arithmetic, functions and templates around the path. A path that uses them does not parse.

use muster_tree::Tree;

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A field of a map.
    Field(String),
    /// An item of a list; negative counts from the end.
    Item(i64),
    /// A list slice: start inclusive, end exclusive.
    Slice(Option<i64>, Option<i64>),
    /// Every value of a map or list.
    All,
    /// Items that pass the test at the relative path.
    Filter(Vec<Step>, Test),
}

/// The test of a filter.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Equal(Tree),
    Unequal(Tree),
}

#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` when unsupported.
    #[must_use]
    pub fn parse(text: &str) -> Option<JsonPath> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        steps(text.strip_prefix('$').unwrap_or(text)).map(JsonPath)
    }

    /// All values at the path, in order.
    #[must_use]
    pub fn find<'a>(&self, tree: &'a Tree) -> Vec<&'a Tree> {
        walk(&self.0, tree)
    }
}

fn walk<'a>(steps: &[Step], tree: &'a Tree) -> Vec<&'a Tree> {
    steps
        .iter()
        .fold(vec![tree], |found, step| found.into_iter().flat_map(|tree| follow(step, tree)).collect())
}

fn follow<'a>(step: &Step, tree: &'a Tree) -> Vec<&'a Tree> {
    let items = tree.items();
    match step {
        Step::Field(name) => tree.get(name).into_iter().collect(),
        Step::Item(at) => place(*at, items.len()).and_then(|at| items.get(at)).into_iter().collect(),
        Step::Slice(from, to) => {
            let from = from.map_or(Some(0), |at| place(at, items.len())).unwrap_or(0);
            let to = to.map_or(Some(items.len()), |at| place(at, items.len())).unwrap_or(0);
            items.iter().take(to).skip(from).collect()
        }
        Step::All if tree.is_map() => tree.entries().iter().map(|(_, value)| value).collect(),
        Step::All => items.iter().collect(),
        Step::Filter(path, test) => items.iter().filter(|item| holds(path, test, item)).collect(),
    }
}

/// Resolves an index in a list of this length; `None` before its start.
fn place(at: i64, len: usize) -> Option<usize> {
    let at = if at < 0 { at + i64::try_from(len).ok()? } else { at };
    usize::try_from(at).ok()
}

fn holds(path: &[Step], test: &Test, item: &Tree) -> bool {
    let found = walk(path, item);
    match test {
        Test::Exists => !found.is_empty(),
        Test::Equal(want) => found.first().is_some_and(|got| *got == want),
        Test::Unequal(want) => found.first().is_some_and(|got| *got != want),
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let step;
        (step, rest) = if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside)?;
            (bracket(&inside[..end])?, &inside[end + 1..])
        } else {
            let name = rest.strip_prefix('.').or(all.is_empty().then_some(rest))?;
            field(name)?
        };
        all.push(step);
    }
    Some(all)
}

/// A field name up to the next `.` or `[`; a backslash escapes the next character.
fn field(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(c),
        }
    }
    match name.as_str() {
        "" => None,
        "*" => Some((Step::All, &text[end..])),
        _ => Some((Step::Field(name), &text[end..])),
    }
}

/// The closing bracket, skipping quotes and nested brackets.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(inside) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(test) = inside.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        return filter(test);
    }
    let Some((from, to)) = inside.split_once(':') else {
        return inside.parse().ok().map(Step::Item);
    };
    let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    Some(Step::Slice(bound(from)?, bound(to)?))
}

fn filter(text: &str) -> Option<Step> {
    for (sign, test) in [("==", Test::Equal as fn(Tree) -> Test), ("!=", Test::Unequal)] {
        if let Some((path, value)) = text.split_once(sign) {
            return Some(Step::Filter(relative(path)?, test(literal(value.trim())?)));
        }
    }
    Some(Step::Filter(relative(text)?, Test::Exists))
}

fn relative(text: &str) -> Option<Vec<Step>> {
    steps(text.trim().strip_prefix('@')?)
}

fn literal(text: &str) -> Option<Tree> {
    quoted(text).map(Tree::from).or_else(|| Tree::parse(text.as_bytes()).ok())
}

fn quoted(text: &str) -> Option<&str> {
    let inside = |mark| text.strip_prefix(mark).and_then(|t: &str| t.strip_suffix(mark));
    inside('"').or_else(|| inside('\'')).filter(|_| text.len() > 1)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn the_paths_of_columns_lead_to_their_values() {
        let job = tree!({
            "metadata": {"labels": {"example.com/a": "dotted"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Other", "status": "False", "n": 2},
                {"status": "Unknown", "n": 3},
            ]},
        });
        let cases = [
            (".status.conditions[?(@.type==\"Ready\")].status", tree!(["True"])),
            (".status.conditions[?(@.type=='Other')].n", tree!([2])),
            (".status.conditions[?(@.n==3)].status", tree!(["Unknown"])),
            (".status.conditions[?(@.type!=\"Ready\")].n", tree!([2])),
            (".status.conditions[?(@.type)].n", tree!([1, 2])),
            (".status.conditions[*].n", tree!([1, 2, 3])),
            (".status.conditions[0].n", tree!([1])),
            (".status.conditions[-1:].n", tree!([3])),
            (".status.conditions[-1].n", tree!([3])),
            (".status.conditions[:2].n", tree!([1, 2])),
            (".status.conditions[7].n", tree!([])),
            (".metadata.labels['example.com/a']", tree!(["dotted"])),
            (".metadata.labels.example\\.com/a", tree!(["dotted"])),
            ("{.metadata.labels.*}", tree!(["dotted"])),
            (".no.such", tree!([])),
            ("$.metadata.labels.none", tree!([])),
        ];
        for (path, want) in cases {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} parses"));
            assert_eq!(Tree::list(parsed.find(&job)), want, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_does_not_parse() {
        for path in ["..name", ".a[", ".a[x]", ".a[?(type==1)]", ".a[?(@.t==)]", ".a.", ".a['b]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
