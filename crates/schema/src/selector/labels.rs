//! Label selectors in their query form (`app=web,tier in (a,b),!canary`) and as objects of specs.

use std::collections::BTreeSet;

use muster_tree::Tree;

use super::lexer::{Token, Tokens};
use super::words::{label_key_problems, label_value_problems};

/// A parsed label selector: all requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    requirements: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// How its value is compared.
    pub operator: Operator,
    /// The values it is compared with.
    pub values: BTreeSet<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of the values (`=`, `==`, `in`).
    In,
    /// There is no such label, or its value is none of the values (`!=`, `notin`).
    NotIn,
    /// There is such a label.
    Exists,
    /// There is no such label.
    Absent,
    /// The value is a whole number above (`>`).
    Above,
    /// The value is a whole number below (`<`).
    Below,
}

impl Labels {
    /// Reads a label selector; the empty text selects everything.
    ///
    /// # Errors
    ///
    /// A message for a 400 answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens::of(text);
        let mut requirements = Vec::new();
        loop {
            match tokens.peek() {
                Token::End => break,
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            let requirement = requirement(&mut tokens);
            requirements.push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
            separator(&mut tokens)?;
        }
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Reads a selector object of a spec (`matchLabels`, `matchExpressions`); an absent one selects nothing, an
    /// empty one everything. Expressions were validated before; unknown operators select nothing.
    #[must_use]
    pub fn of_selector(selector: Option<&Tree>) -> Option<Self> {
        let selector = selector?;
        let pairs = selector.entries_at(&["matchLabels"]).iter().map(|(key, value)| Requirement {
            key: key.to_string(),
            operator: Operator::In,
            values: value.as_str().map(String::from).into_iter().collect(),
        });
        let mut requirements: Vec<_> = pairs.collect();
        for expression in selector.items_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Absent,
                "Gt" => Operator::Above,
                "Lt" => Operator::Below,
                _ => return None,
            };
            let values = expression.items_at(&["values"]).iter().filter_map(Tree::as_str).map(String::from);
            requirements.push(Requirement {
                key: expression.str_at(&["key"]).into(),
                operator,
                values: values.collect(),
            });
        }
        Some(Self { requirements })
    }

    /// Whether all requirements hold for `metadata.labels`.
    #[must_use]
    pub fn matches(&self, labels: Option<&Tree>) -> bool {
        let value_of = |key: &str| labels.and_then(|l| l.get(key)).and_then(Tree::as_str);
        self.requirements.iter().all(|requirement| requirement.holds(value_of(&requirement.key)))
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_among = |v: &str| self.values.contains(v);
        match self.operator {
            Operator::In => value.is_some_and(is_among),
            Operator::NotIn => !value.is_some_and(is_among),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Above => self.compares(value, |a, b| a > b),
            Operator::Below => self.compares(value, |a, b| a < b),
        }
    }

    fn compares(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|v| number(v));
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    }
}

/// After a requirement comes the end, or a comma and another one.
fn separator(tokens: &mut Tokens<'_>) -> Result<(), String> {
    match (tokens.next(), tokens.peek()) {
        (Token::End, _) | (Token::Symbol(","), Token::Word(_) | Token::Symbol("!")) => Ok(()),
        (Token::Symbol(","), other) => {
            Err(format!("found '{}', expected: identifier after ','", other.text()))
        }
        (other, _) => Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let is_negated = tokens.peek() == Token::Symbol("!");
    if is_negated {
        tokens.next();
    }
    let key = match tokens.next() {
        Token::Word(key) => key,
        other => return Err(format!("found '{}', expected: identifier", other.text())),
    };
    let problems = label_key_problems(key);
    if !problems.is_empty() {
        return Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")));
    }
    // `!a=b` is `!a` and then something unexpected, which the caller reports.
    let stands_alone = is_negated || matches!(tokens.peek(), Token::End | Token::Symbol(","));
    let (operator, values) = match (is_negated, stands_alone) {
        (true, _) => (Operator::Absent, BTreeSet::new()),
        (_, true) => (Operator::Exists, BTreeSet::new()),
        _ => comparison(tokens)?,
    };
    check_values(key, operator, &values)?;
    Ok(Requirement { key: key.into(), operator, values })
}

fn comparison(tokens: &mut Tokens<'_>) -> Result<(Operator, BTreeSet<String>), String> {
    let operator = match tokens.next() {
        Token::Word("in") => return Ok((Operator::In, set(tokens)?)),
        Token::Word("notin") => return Ok((Operator::NotIn, set(tokens)?)),
        Token::Symbol("=" | "==") => Operator::In,
        Token::Symbol("!=") => Operator::NotIn,
        Token::Symbol(">") => Operator::Above,
        Token::Symbol("<") => Operator::Below,
        other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
    };
    let value = match tokens.peek() {
        Token::End | Token::Symbol(",") => "",
        Token::Word(value) => {
            tokens.next();
            value
        }
        other => return Err(format!("found '{}', expected: identifier", other.text())),
    };
    Ok((operator, BTreeSet::from([value.into()])))
}

/// Reads `(a,b)`; a place without a word is the empty value.
fn set(tokens: &mut Tokens<'_>) -> Result<BTreeSet<String>, String> {
    let open = tokens.next();
    if open != Token::Symbol("(") {
        return Err(format!("found '{}' expected: '('", open.text()));
    }
    if !matches!(tokens.peek(), Token::Word(_) | Token::Symbol("," | ")")) {
        return Err(format!("found '{}', expected: ',', ')' or identifier", tokens.peek().text()));
    }
    let mut values = BTreeSet::new();
    loop {
        values.insert(match tokens.peek() {
            Token::Word(value) => {
                tokens.next();
                value.into()
            }
            Token::Symbol("," | ")") => String::new(),
            other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
        });
        match tokens.next() {
            Token::Symbol(")") => return Ok(values),
            Token::Symbol(",") => {}
            other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &BTreeSet<String>) -> Result<(), String> {
    let mut problems = Vec::new();
    if matches!(operator, Operator::Above | Operator::Below) {
        for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
            problems.push(format!(
                "values[{i}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let wrong = label_value_problems(value);
        if !wrong.is_empty() {
            problems.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
        }
    }
    match &problems[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn selectors_select() {
        let labels = tree!({"app": "web", "tier": "a", "n": "7", "empty": ""});
        for (selector, want) in [
            ("", true),
            ("  ", true),
            ("app=web", true),
            ("app==web,tier=b", false),
            ("app = web , tier != b", true),
            ("none!=x", true),
            ("app!=web", false),
            ("tier in (a,b)", true),
            ("tier in(b)", false),
            ("tier notin (b,c)", true),
            ("none notin (b)", true),
            ("app", true),
            ("none", false),
            ("!none", true),
            ("!app", false),
            ("n>5,n<9", true),
            ("n>7", false),
            ("app>5", false),
            ("empty=", true),
            ("empty in ()", true),
            ("empty in (,x)", true),
            ("app in (x,,y)", false),
            ("none=", false),
            ("in notin (in)", true),
        ] {
            assert_eq!(Labels::parse(selector).unwrap().matches(Some(&labels)), want, "{selector}");
        }
        assert!(Labels::parse("!a,a!=b").unwrap().matches(None));
    }

    #[test]
    fn mistakes_get_the_known_words() {
        for (selector, want) in [
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a notin", "unable to parse requirement: found '' expected: '('"),
            ("a,", "found '', expected: identifier after ','"),
            ("a!=b, ,c", "found ',', expected: identifier after ','"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("()", "found '(', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a<x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "/a=b",
                "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty",
            ),
        ] {
            assert_eq!(Labels::parse(selector), Err(want.into()), "{selector}");
        }
    }

    #[test]
    fn broken_keys_and_values_are_explained() {
        let long = "x".repeat(64);
        for (selector, want) in [
            (
                "A/B=c",
                "<nil>: Invalid value: \"A/B\": prefix part a lowercase RFC 1123 subdomain must consist of",
            ),
            ("a/b/c=d", "<nil>: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric"),
            (
                "_a=b",
                "<nil>: Invalid value: \"_a\": name part must consist of alphanumeric characters, '-', '_' or",
            ),
            ("a/=b", "<nil>: Invalid value: \"a/\": name part must be non-empty; name part must consist of"),
            (
                "a=-b",
                "values[0][a]: Invalid value: \"-b\": a valid label must be an empty string or consist of",
            ),
            (
                &format!("{long}=b"),
                &format!("<nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes"),
            ),
            (
                &format!("a={long}"),
                &format!("values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"),
            ),
        ] {
            let error = Labels::parse(selector).unwrap_err();
            let prefix = format!("unable to parse requirement: {want}");
            assert!(error.starts_with(&prefix), "{selector}: {error}");
        }
    }

    #[test]
    fn selector_objects_select() {
        let object = tree!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "canary", "operator": "DoesNotExist"}]});
        let labels = Labels::of_selector(Some(&object)).unwrap();
        assert!(labels.matches(Some(&tree!({"app": "web", "tier": "b"}))));
        assert!(!labels.matches(Some(&tree!({"app": "web", "tier": "b", "canary": ""}))));
        assert!(
            Labels::of_selector(Some(&tree!({}))).unwrap().matches(None),
            "an empty selector selects all"
        );
        assert!(Labels::of_selector(None).is_none(), "an absent selector selects nothing");
    }
}
