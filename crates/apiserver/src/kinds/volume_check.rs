//! What the volumes of a pod may hold.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::Errors;
use super::at::At;

/// Highest file mode.
const MODE_MAX: i64 = 0o777;

/// The names of the volumes that a container may mount, and what is wrong with them.
pub(super) fn volumes<'a>(all: &'a [Tree], list: &At<'_>, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut usable = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (i, volume) in all.iter().enumerate() {
        let at = list.item(i);
        let before = errors.len();
        source(volume, &at, errors);
        let name = volume.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else {
            at.field("name").problems(name, names::label(name), errors);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(at.field("name"), name));
            }
        }
        if errors.len() == before {
            usable.insert(name);
        }
    }
    usable
}

/// (source, the field that it cannot do without).
const NEEDS: [(&str, &str); 5] = [
    ("configMap", "name"),
    ("secret", "secretName"),
    ("persistentVolumeClaim", "claimName"),
    ("hostPath", "path"),
    ("ephemeral", "volumeClaimTemplate"),
];

fn source(volume: &Tree, at: &At<'_>, errors: &mut Errors) {
    let sources = volume.entries().iter().filter(|(key, value)| key != "name" && !value.is_null());
    for (key, _) in sources.clone().skip(1) {
        errors.push(FieldError::forbidden(at.field(key), "may not specify more than 1 volume type"));
    }
    for (key, needed) in NEEDS {
        if let Some(source) = volume.get(key)
            && source.get(needed).is_none_or(|value| value.as_str() == Some(""))
        {
            let place = at.field(key);
            place.field(needed).required(errors);
        }
    }
    for key in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get(key) {
            files(source, &at.field(key), errors);
        }
    }
}

fn files(source: &Tree, at: &At<'_>, errors: &mut Errors) {
    mode(source.int_at(&["defaultMode"]), &at.field("defaultMode"), errors);
    let list = at.field("items");
    for (i, item) in source.items_at(&["items"]).iter().enumerate() {
        let at = list.item(i);
        let path = item.str_at(&["path"]);
        if path.is_empty() {
            at.field("path").required(errors);
        } else if path.starts_with('/') {
            errors.push(FieldError::invalid(at.field("path"), path, "must be a relative path"));
        } else if path.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(at.field("path"), path, "must not contain '..'"));
        }
        mode(item.int_at(&["mode"]), &at.field("mode"), errors);
    }
}

fn mode(mode: Option<i64>, at: &At<'_>, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(at, mode, why));
    }
}
