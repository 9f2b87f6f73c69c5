//! Validation of pod volumes.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::FieldErrors;
use super::field_path::FieldPath;

/// Maximum file mode, octal 0777.
const MODE_MAX: i64 = 0o777;

/// The names of the mountable volumes; reports invalid ones.
pub(super) fn volumes<'a>(
    all: &'a [Tree],
    list: &FieldPath<'_>,
    errors: &mut FieldErrors,
) -> BTreeSet<&'a str> {
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

/// (volume source, its required field).
const NEEDS: [(&str, &str); 5] = [
    ("configMap", "name"),
    ("secret", "secretName"),
    ("persistentVolumeClaim", "claimName"),
    ("hostPath", "path"),
    ("ephemeral", "volumeClaimTemplate"),
];

fn source(volume: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
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

fn files(source: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
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

fn mode(mode: Option<i64>, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(at, mode, why));
    }
}
