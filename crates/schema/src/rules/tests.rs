//! What a real server said about objects under rules.

use muster_tree::{Tree, tree};

use super::*;
use crate::{crd, structure};

fn ruled() -> (SchemaRef, Rules) {
    let schema = Tree::parse(include_bytes!("../../fixtures/ruled.json")).unwrap();
    let schema = crd::compile(&schema).unwrap();
    let rules = Rules::compile(&schema).unwrap();
    (schema, rules)
}

#[test]
fn every_object_gets_the_answer_of_the_real_server() {
    let (schema, rules) = ruled();
    let mut wrong = Vec::new();
    for line in include_str!("../../fixtures/ruled-cases.jsonl").lines() {
        let row = Tree::parse(line.as_bytes()).unwrap();
        let old = row.get("old").map(|old| structure::default(schema.view(), old));
        let new = structure::default(schema.view(), row.get("new").unwrap());
        let errors = rules.check(&new, old.as_ref());
        let shown = errors.iter().map(|e| tree!([(e.problem.reason()), (e.path.as_str()), (e.message())]));
        let mut got: Vec<String> = shown.map(|row| row.to_json()).collect();
        let mut want: Vec<String> = row.items_at(&["errors"]).iter().map(Tree::to_json).collect();
        got.sort();
        want.sort();
        if got != want {
            wrong.push(format!("{}\n  got  {got:?}\n  want {want:?}", row.str_at(&["case"])));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn one_rule(rule: &Tree) -> Result<Rules, Vec<FieldError>> {
    let spec = tree!({"type": "object", "properties": {
        "a": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }});
    let spec = spec.with(&["x-kubernetes-validations"], tree!([rule]));
    let schema = tree!({"type": "object"}).with(&["properties", "spec"], spec);
    Rules::compile(&crd::compile(&schema).unwrap())
}

#[test]
fn rules_that_cannot_be_meant_are_refused_with_the_place() {
    let undeclared = |name: &str| format!("undeclared reference to '{name}' (in container '')");
    for (rule, words) in [
        (tree!({"rule": "self."}), "compilation failed: ERROR: <input>:1:6: Syntax error".to_owned()),
        (
            tree!({"rule": "self.foo == 1"}),
            "compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo == 1\n | ....^"
                .into(),
        ),
        (tree!({"rule": "self.o.y == 1"}), "<input>:1:7: undefined field 'y'".into()),
        (tree!({"rule": "self.l.all(i, i > n)"}), undeclared("n")),
        (tree!({"rule": "zork(1)"}), undeclared("zork")),
        (tree!({"rule": "self.a.zork()"}), undeclared("zork")),
        (tree!({"rule": "Thing{a: 1} == 1"}), undeclared("Thing")),
        (tree!({"rule": "1"}), "cel expression must evaluate to a bool".into()),
        (
            tree!({"rule": "true", "messageExpression": "1"}),
            "messageExpression must evaluate to a string".into(),
        ),
        (
            tree!({"rule": "true", "messageExpression": "self.zz"}),
            "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'zz'".into(),
        ),
        (
            tree!({"rule": "true", "optionalOldSelf": true}),
            "may not be set if oldSelf is not used in rule".into(),
        ),
    ] {
        let errors = one_rule(&rule).unwrap_err();
        assert_eq!(errors.len(), 1, "{rule}: {errors:?}");
        assert!(errors[0].message().contains(&words), "{rule}: {}", errors[0]);
        let path = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].";
        assert!(errors[0].path.starts_with(path), "{}", errors[0].path);
    }
}

#[test]
fn old_values_are_not_spoken_of_where_there_are_none() {
    let schema = tree!({"type": "object", "properties": {"spec": {"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }}}});
    let errors = Rules::compile(&crd::compile(&schema).unwrap()).unwrap_err();
    let words = "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                 spec.validation.openAPIV3Schema.properties[spec]";
    assert_eq!(errors[0].message(), format!("Invalid value: \"self == oldSelf\": {words}"));
}

#[test]
fn defaults_keep_the_rules() {
    let schema = tree!({"type": "object", "properties": {"spec": {
        "type": "integer", "default": 5, "x-kubernetes-validations": [{"rule": "self < 3", "message": "m"}],
    }}});
    let errors = Rules::compile(&crd::compile(&schema).unwrap()).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: 5: m"
    );
}

#[test]
fn a_loop_without_end_ends() {
    let rules =
        one_rule(&tree!({"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"})).unwrap();
    let object = |n: i64| tree!({}).with(&["spec", "l"], Tree::list(0..n));
    assert_eq!(rules.check(&object(20), None), vec![]);
    let errors = rules.check(&object(200), None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message().contains("actual cost limit exceeded"), "{}", errors[0]);
    assert_eq!(rules.check(&object(20), None), vec![], "the next check starts afresh");
}

#[test]
fn oversized_rules_are_rejected() {
    for rule in [
        format!("{}true{}", "(".repeat(3000), ")".repeat(3000)),
        format!("{}true", "!".repeat(7000)),
        format!("1{} == 1", "+1".repeat(3500)),
        format!("true{}", " && true".repeat(800)),
        format!("self.l{} == 1", "[0]".repeat(2000)),
        format!("{}1{} == [1]", "[".repeat(3000), "]".repeat(3000)),
        format!("self.o{} == 1", ".x".repeat(3500)),
        format!("true ? {} true", "true : true ? ".repeat(500)),
        "x".repeat(100_000),
    ] {
        // A small stack, as threads of a server have.
        let made = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
            let rule = Tree::map([("rule", Tree::from(rule))]);
            one_rule(&rule).map(|rules| rules.check(&tree!({"spec": {"l": [1]}}), None))
        });
        let _ = made.unwrap().join().expect("no panic");
    }
}

#[test]
fn long_rules_within_the_limits_run_on_a_small_stack() {
    for rule in [
        format!("1{} == 151", "+1".repeat(150)),
        format!("{}true{}", "(".repeat(60), ")".repeat(60)),
        format!("true{}", " && self.l.all(x, x > 0)".repeat(100)),
        format!("{} true", "false ? false : ".repeat(60)),
        format!("self.l{}", ".map(x, x)".repeat(30)) + " == [1]",
    ] {
        let made = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
            let rules = one_rule(&Tree::map([("rule", Tree::from(&rule))])).unwrap();
            assert_eq!(rules.check(&tree!({"spec": {"l": [1]}}), None), vec![], "{rule}");
        });
        made.unwrap().join().expect("no panic");
    }
}

#[test]
fn only_referenced_fields_are_converted() {
    let rules =
        one_rule(&tree!({"rule": "has(self.a) && self.o.x > 0 || self.?l[?0] == optional.of(1)"})).unwrap();
    let here = rules.nodes.values().next().unwrap();
    assert_eq!(here.needs, Needs::Fields(["a", "l", "o"].into_iter().map(Text::from).collect()));
    assert_eq!(here.old_needs, Needs::Nothing);
}

#[test]
fn kinds_without_rules_cost_nothing() {
    let schema =
        crd::compile(&tree!({"type": "object", "properties": {"spec": {"type": "string"}}})).unwrap();
    let rules = Rules::compile(&schema).unwrap();
    assert!(rules.is_empty());
    assert_eq!(rules.check(&tree!({"spec": "x"}), None), vec![]);
}
