//! Validation of devices in ResourceSlices, and of opaque driver configuration.

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::FieldErrors;
use super::field_path::FieldPath;
use super::node::check_taint;

/// Attribute value types, in the order of error messages.
const FORMS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
const IDENTIFIER_WORDS: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Validates attributes, capacity and taints.
pub(super) fn device(device: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("attributes");
    for (name, value) in device.entries_at(&["attributes"]) {
        qualified(name, &list, errors);
        attribute(value, &list.key(name), errors);
    }
    let list = at.field("capacity");
    for (name, _) in device.entries_at(&["capacity"]) {
        qualified(name, &list, errors);
    }
    let list = at.field("taints");
    for (i, taint) in device.items_at(&["taints"]).iter().enumerate() {
        check_taint(taint, &list.item(i), &["NoExecute", "NoSchedule", "None"], errors);
    }
}

/// A name without a domain must be a C identifier.
fn qualified(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let own = name.rsplit('/').next().unwrap_or_default();
    let is_letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let fits =
        own.bytes().next().is_some_and(is_letter) && own.bytes().all(|b| is_letter(b) || b.is_ascii_digit());
    if !fits {
        errors.push(FieldError::invalid(at, own, IDENTIFIER_WORDS));
    }
}

fn attribute(value: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let all = FORMS.map(|form| format!("`{form}`")).join(", ");
    let mut set: Vec<&str> = FORMS.into_iter().filter(|form| value.get(form).is_some()).collect();
    match set.len() {
        0 => errors.push(FieldError::invalid(at, "", format!("must specify one of: {all}"))),
        1 => {}
        _ => {
            set.sort_unstable();
            let shown = format!("{{{}}}", set.join(", "));
            errors.push(FieldError::invalid(at, shown, format!("must specify exactly one of: {all}")));
        }
    }
    let version = value.str_at(&["version"]);
    if value.get("version").is_some() && !is_version(version) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid(at.field("version"), version, why));
    }
}

/// Semantic version: three numbers, optional pre-release and build.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && [pre, build].into_iter().flatten().all(|words| words.split('.').all(is_word))
}

/// Constraints and configurations may only name existing requests.
pub(super) fn known_requests(spec: &Tree, owner: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let requests = spec.items_at(&["devices", "requests"]);
    let exists = |name: &str| {
        let (main, part) = name.split_once('/').unwrap_or((name, ""));
        requests.iter().filter(|request| request.str_at(&["name"]) == main).any(|request| {
            let parts = request.items_at(&["firstAvailable"]);
            part.is_empty() || parts.iter().any(|one| one.str_at(&["name"]) == part)
        })
    };
    let list = at.field("requests");
    for (i, name) in owner.items_at(&["requests"]).iter().filter_map(Tree::as_str).enumerate() {
        if !exists(name) {
            let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            errors.push(FieldError::invalid(list.item(i), name, why));
        }
    }
}

pub(super) fn configuration(config: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let at = at.field("opaque");
    let Some(opaque) = config.get("opaque") else {
        at.required(errors);
        return;
    };
    driver(opaque.str_at(&["driver"]), &at.field("driver"), errors);
    let place = at.field("parameters");
    match opaque.get("parameters") {
        None | Some(Tree::Null) => place.required(errors),
        Some(Tree::Map(_)) => {}
        Some(_) => {
            errors.push(FieldError::invalid(place, "<value omitted>", "must be a valid JSON object"));
        }
    }
}

fn driver(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if name.is_empty() {
        at.required(errors);
    } else if !names::subdomain(&name.to_lowercase()).is_empty() {
        errors.push(FieldError::invalid(at, name, DRIVER_WORDS));
    }
}

const DRIVER_WORDS: &str = r"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn devices_that_break_a_rule() {
        for (given, want) in [
            (tree!({"attributes": {"model": {"string": "a"}, "v": {"version": "1.2.3-rc.1+b"}}}), vec![]),
            (tree!({"attributes": {"bad name!": {"int": 1}}}), vec!["d.attributes"]),
            (tree!({"attributes": {"a": {}}}), vec!["d.attributes[a]"]),
            (tree!({"attributes": {"a": {"int": 1, "string": "x"}}}), vec!["d.attributes[a]"]),
            (tree!({"attributes": {"a": {"version": "1.2"}}}), vec!["d.attributes[a].version"]),
            (tree!({"taints": [{"key": "k", "effect": "Nope"}]}), vec!["d.taints[0].effect"]),
        ] {
            let mut errors = FieldErrors::new();
            device(&given, &FieldPath::Root("d"), &mut errors);
            assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), want, "{given:?}");
        }
    }
}
