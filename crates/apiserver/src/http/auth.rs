//! Who is asking.
//!
//! # Invariants
//!
//! - Only health and version answer to somebody unknown.
//! - A token that is shown must be good: a bad one is 401 everywhere, also where none is needed.
//! - Tokens are compared by their hashes, so that timing tells nothing of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use muster_api::ports::{Clock, Entropy};
use muster_api::time::Time;
use muster_store::{Key, Store};
use muster_tree::{Text, Tree, tree};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::jwt::{Claims, ISSUER, TokenKey};
use crate::engine::{Account, Tokens};
use crate::request::User;
use crate::status::{Named, Status};

const ALL_AUTHENTICATED: &str = "system:authenticated";
/// How long a ServiceAccount token lives when nothing else is asked, in seconds.
const TOKEN_SECS: i64 = 3_600;

/// Paths that anybody may read.
#[must_use]
pub fn is_public(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "version" | "healthz" | "livez" | "readyz")
}

/// Knows tokens.
pub struct Authenticator {
    fixed: BTreeMap<[u8; 32], User>,
    accounts: Arc<AccountTokens>,
}

impl Authenticator {
    /// Knows these tokens and those of service accounts.
    #[must_use]
    pub fn new(fixed: Vec<(String, User)>, accounts: Arc<AccountTokens>) -> Self {
        let fixed = fixed.into_iter().map(|(token, user)| (hash(&token), user)).collect();
        Self { fixed, accounts }
    }

    /// The user of a request; `None` when it shows neither certificate nor token.
    ///
    /// # Errors
    /// 401 for a token that is not good.
    pub fn user(&self, certified: Option<&User>, headers: &HeaderMap) -> Result<Option<User>, Status> {
        if let Some(user) = certified {
            return Ok(Some(known(user.clone())));
        }
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(None);
        };
        let token = header.to_str().ok().and_then(bearer).ok_or_else(Status::unauthorized)?;
        let user = self.fixed.get(&hash(token)).cloned();
        let user = user.or_else(|| self.accounts.judge(token, &[]));
        user.map(|user| Some(known(user))).ok_or_else(Status::unauthorized)
    }
}

/// The token of an `Authorization` header that shows one.
pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|t| !t.is_empty())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn known(mut user: User) -> User {
    if !user.groups.iter().any(|g| g == ALL_AUTHENTICATED) {
        user.groups.push(Text::from(ALL_AUTHENTICATED));
    }
    user
}

/// The user that a verified client certificate names: its common name, with its organizations as groups.
#[must_use]
pub fn user_of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(Text::from);
    Some(User { name: Text::from(name), groups: groups.collect(), ..User::default() })
}

/// Issues and judges the tokens of service accounts.
pub struct AccountTokens {
    key: TokenKey,
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl AccountTokens {
    /// Signs with `key`; accounts, and what tokens are bound to, are looked up in `store`.
    #[must_use]
    pub fn new(key: TokenKey, store: Store, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { key, store, clock, entropy }
    }

    fn exists(&self, resource: &str, namespace: &Text, name: &Text, uid: &str) -> bool {
        let key = Key { resource: Text::from(resource), namespace: namespace.clone(), name: name.clone() };
        self.store.get(&key).is_some_and(|object| object.tree.str_at(&["metadata", "uid"]) == uid)
    }

    fn still_holds(&self, claims: &Claims) -> bool {
        let account = self.exists("serviceaccounts", &claims.namespace, &claims.name, &claims.uid);
        let bound = claims.bound.as_ref().is_none_or(|(kind, name, uid)| match kind.as_str() {
            "pod" => self.exists("pods", &claims.namespace, name, uid),
            "secret" => self.exists("secrets", &claims.namespace, name, uid),
            _ => self.exists("nodes", &Text::new(), name, uid),
        });
        account && bound
    }

    fn bound_to(&self, account: &Account<'_>, wanted: &Tree) -> Result<(Text, Text, Text), Status> {
        let kind = wanted.str_at(&["kind"]);
        let (group, version) = match wanted.str_at(&["apiVersion"]).split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", wanted.str_at(&["apiVersion"])),
        };
        let (resource, namespace) = match (group, kind) {
            ("", "Pod") => ("pods", account.namespace),
            ("", "Secret") => ("secrets", account.namespace),
            ("", "Node") => ("nodes", ""),
            _ => {
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(why));
            }
        };
        let name = wanted.text_at(&["name"]);
        let key =
            Key { resource: Text::from(resource), namespace: Text::from(namespace), name: name.clone() };
        let on = Named { group: "", resource, name: &name };
        let object = self.store.get(&key).ok_or_else(|| Status::not_found(on))?;
        if kind == "Pod" && object.tree.str_at(&["spec", "serviceAccountName"]) != account.name {
            let why = format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                account.name
            );
            return Err(Status::bad_request(why));
        }
        let uid = object.tree.text_at(&["metadata", "uid"]);
        let asked = wanted.str_at(&["uid"]);
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(Named { resource: kind, ..on }, &why));
        }
        Ok((Text::from(kind.to_ascii_lowercase()), name, uid))
    }
}

impl Tokens for AccountTokens {
    fn judge(&self, token: &str, audiences: &[Text]) -> Option<User> {
        let claims = self.key.read(token, self.clock.now())?;
        let own = [Text::from(ISSUER)];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        if !claims.audiences.iter().any(|a| wanted.contains(a)) || !self.still_holds(&claims) {
            return None;
        }
        let groups = vec![
            Text::from("system:serviceaccounts"),
            Text::from(format!("system:serviceaccounts:{}", claims.namespace)),
        ];
        Some(known(User { name: Text::from(claims.user_name()), uid: claims.uid, groups, ..User::default() }))
    }

    fn audience(&self) -> &str {
        ISSUER
    }

    fn issue(&self, account: &Account<'_>, spec: &Tree) -> Result<Tree, Status> {
        let now = self.clock.now();
        let secs = spec.int_at(&["expirationSeconds"]).unwrap_or(TOKEN_SECS);
        let expires = now + Duration::from_secs(secs.unsigned_abs());
        let bound = spec.get("boundObjectRef").filter(|b| b.is_map() && !b.is_empty());
        let bound = bound.map(|wanted| self.bound_to(account, wanted)).transpose()?;
        let claims = Claims {
            namespace: Text::from(account.namespace),
            name: Text::from(account.name),
            uid: Text::from(account.uid),
            audiences: spec.items_at(&["audiences"]).iter().filter_map(|a| a.as_text().cloned()).collect(),
            bound,
            expires: Time(expires.0),
        };
        let token = self.key.sign(&claims, now, &self.entropy.uid());
        Ok(tree!({"token": token, "expirationTimestamp": expires.to_seconds_text()}))
    }
}
