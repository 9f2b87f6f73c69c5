//! ConfigMaps and Secrets.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::StrategyContext;
use super::field_path::FieldPath;
use super::{FieldErrors, ResourceStrategy};

/// Maximum total size of the values in bytes.
const BYTES_MAX: usize = 1024 * 1024;

const KEY_WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn key_problems(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if key.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        wrong.push(KEY_WORDS.to_owned());
    }
    match key {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The decoded length of base64 text.
fn decoded_len(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn frozen(new: &Tree, old: &Tree, keys: &[&str], errors: &mut FieldErrors) {
    if old.bool_at(&["immutable"]) != Some(true) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if new.bool_at(&["immutable"]) != Some(true) {
        errors.push(FieldError::forbidden("immutable", why));
    }
    for key in keys {
        if new.get(key) != old.get(key) {
            errors.push(FieldError::forbidden(*key, why));
        }
    }
}

#[derive(Debug)]
pub(super) struct ConfigMap;

impl ResourceStrategy for ConfigMap {
    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let mut bytes = 0;
        for part in ["data", "binaryData"] {
            let root = FieldPath::Root(part);
            for (key, value) in new.entries_at(&[part]) {
                root.key(key).problems(key, key_problems(key), errors);
                if part == "data" && new.at(&["binaryData", key]).is_some() {
                    let why = "duplicate of key present in binaryData";
                    errors.push(FieldError::invalid(root.key(key), key, why));
                }
                let text = value.as_str().unwrap_or_default();
                bytes += if part == "data" { text.len() } else { decoded_len(text) };
            }
        }
        if bytes > BYTES_MAX {
            errors.push(FieldError::too_long("", BYTES_MAX));
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        frozen(new, old, &["data", "binaryData"], errors);
        self.validate_create(new, cx, errors);
    }
}

#[derive(Debug)]
pub(super) struct Secret;

/// (Secret type, required data keys).
const NEEDS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

impl ResourceStrategy for Secret {
    fn default(&self, tree: Tree) -> Tree {
        let texts = tree.entries_at(&["stringData"]);
        let folded = texts.iter().fold(tree.clone(), |tree, (key, value)| {
            let bytes = BASE64_STANDARD.encode(value.as_str().unwrap_or_default());
            tree.with(&["data", key], bytes)
        });
        folded.without_key("stringData")
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let root = FieldPath::Root("data");
        let mut bytes = 0;
        for (key, value) in new.entries_at(&["data"]) {
            root.key(key).problems(key, key_problems(key), errors);
            bytes += decoded_len(value.as_str().unwrap_or_default());
        }
        if bytes > BYTES_MAX {
            errors.push(FieldError::too_long(root, BYTES_MAX));
        }
        let kind = new.str_at(&["type"]);
        for (_, keys) in NEEDS.iter().filter(|(name, _)| *name == kind) {
            for key in keys.iter().filter(|key| new.at(&["data", key]).is_none()) {
                root.key(key).required(errors);
            }
        }
        let one = ["username", "password"];
        if kind == "kubernetes.io/basic-auth" && one.iter().all(|key| new.at(&["data", key]).is_none()) {
            one.iter().for_each(|key| root.key(key).required(errors));
        }
        let account = "kubernetes.io/service-account.name";
        if kind == "kubernetes.io/service-account-token"
            && new.str_at(&["metadata", "annotations", account]).is_empty()
        {
            FieldPath::Root("metadata.annotations").key(account).required(errors);
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        FieldPath::Root("type").immutable(new.get("type"), old.get("type"), errors);
        frozen(new, old, &["data"], errors);
        self.validate_create(new, cx, errors);
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }
}
