//! Authentication: client certificates, static bearer tokens and ServiceAccount tokens.
//!
//! # Invariants
//!
//! - Only health and version are served to anonymous requests.
//! - An invalid token is rejected with 401 everywhere, also on public paths.
//! - Tokens are compared by their hashes, so that timing reveals nothing of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;
use muster_store::{Key, Store};
use muster_tree::{Text, Tree, tree};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::service_account_jwt::{ISSUER, TokenClaims, TokenSigningKey};
use crate::engine::{ServiceAccountRef, TokenIssuer};
use crate::request::UserInfo;
use crate::status::{Status, StatusObject};

const ALL_AUTHENTICATED: &str = "system:authenticated";
/// Default lifetime of a ServiceAccount token in seconds, as in kube-apiserver.
const TOKEN_SECS: i64 = 3_600;

/// Whether a path is served without authentication.
#[must_use]
pub fn is_public(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "version" | "healthz" | "livez" | "readyz")
}

pub struct Authenticator {
    fixed: BTreeMap<[u8; 32], UserInfo>,
    accounts: Arc<ServiceAccountTokens>,
}

impl Authenticator {
    /// `fixed` are static tokens and their users.
    #[must_use]
    pub fn new(fixed: Vec<(String, UserInfo)>, accounts: Arc<ServiceAccountTokens>) -> Self {
        let fixed = fixed.into_iter().map(|(token, user)| (hash(&token), user)).collect();
        Self { fixed, accounts }
    }

    /// Authenticates a request; `None` when it has neither certificate nor token.
    ///
    /// # Errors
    /// 401 for an invalid token.
    pub fn user(
        &self,
        certified: Option<&UserInfo>,
        headers: &HeaderMap,
    ) -> Result<Option<UserInfo>, Status> {
        if let Some(user) = certified {
            return Ok(Some(with_authenticated_group(user.clone())));
        }
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(None);
        };
        let token = header.to_str().ok().and_then(bearer).ok_or_else(Status::unauthorized)?;
        // Static tokens first: verifying a JWT signature is the expensive path.
        let user = self.fixed.get(&hash(token)).cloned();
        let user = user.or_else(|| self.accounts.authenticate(token, &[]));
        user.map(|user| Some(with_authenticated_group(user))).ok_or_else(Status::unauthorized)
    }
}

/// The token of a `Bearer` authorization header.
pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|t| !t.is_empty())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn with_authenticated_group(mut user: UserInfo) -> UserInfo {
    if !user.groups.iter().any(|g| g == ALL_AUTHENTICATED) {
        user.groups.push(Text::from(ALL_AUTHENTICATED));
    }
    user
}

/// The user of a verified client certificate: its common name, with its organizations as groups.
#[must_use]
pub fn user_of_certificate(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(Text::from);
    Some(UserInfo { name: Text::from(name), groups: groups.collect(), ..UserInfo::default() })
}

/// Issues and authenticates ServiceAccount tokens.
pub struct ServiceAccountTokens {
    key: TokenSigningKey,
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl ServiceAccountTokens {
    /// Signs with `key`; ServiceAccounts and bound objects are looked up in `store`, so that a token ends with them.
    #[must_use]
    pub fn new(key: TokenSigningKey, store: Store, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { key, store, clock, entropy }
    }

    fn exists(&self, resource: &str, namespace: &Text, name: &Text, uid: &str) -> bool {
        let key = Key { resource: Text::from(resource), namespace: namespace.clone(), name: name.clone() };
        self.store.get(&key).is_some_and(|object| object.tree.str_at(&["metadata", "uid"]) == uid)
    }

    fn is_still_valid(&self, claims: &TokenClaims) -> bool {
        let account = self.exists("serviceaccounts", &claims.namespace, &claims.name, &claims.uid);
        let bound = claims.bound.as_ref().is_none_or(|(kind, name, uid)| match kind.as_str() {
            "pod" => self.exists("pods", &claims.namespace, name, uid),
            "secret" => self.exists("secrets", &claims.namespace, name, uid),
            _ => self.exists("nodes", &Text::new(), name, uid),
        });
        // Deleting the ServiceAccount or the bound object revokes the token, as in kube-apiserver.
        account && bound
    }

    fn bound_to(&self, account: &ServiceAccountRef<'_>, wanted: &Tree) -> Result<(Text, Text, Text), Status> {
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
        let on = StatusObject { group: "", resource, name: &name };
        let object = self.store.get(&key).ok_or_else(|| Status::not_found(on))?;
        // As in kube-apiserver: a pod can only hold tokens of its own ServiceAccount.
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
            return Err(Status::conflict(StatusObject { resource: kind, ..on }, &why));
        }
        Ok((Text::from(kind.to_ascii_lowercase()), name, uid))
    }
}

impl TokenIssuer for ServiceAccountTokens {
    fn authenticate(&self, token: &str, audiences: &[Text]) -> Option<UserInfo> {
        let claims = self.key.read(token, self.clock.now())?;
        let own = [Text::from(ISSUER)];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
        if !claims.audiences.iter().any(|a| wanted.contains(a)) || !self.is_still_valid(&claims) {
            return None;
        }
        let groups = vec![
            Text::from("system:serviceaccounts"),
            Text::from(format!("system:serviceaccounts:{}", claims.namespace)),
        ];
        Some(with_authenticated_group(UserInfo {
            name: Text::from(claims.user_name()),
            uid: claims.uid,
            groups,
            ..UserInfo::default()
        }))
    }

    fn audience(&self) -> &str {
        ISSUER
    }

    fn issue(&self, account: &ServiceAccountRef<'_>, spec: &Tree) -> Result<Tree, Status> {
        let now = self.clock.now();
        let secs = spec.int_at(&["expirationSeconds"]).unwrap_or(TOKEN_SECS);
        let expires = now + Duration::from_secs(secs.unsigned_abs());
        let bound = spec.get("boundObjectRef").filter(|b| b.is_map() && !b.is_empty());
        let bound = bound.map(|wanted| self.bound_to(account, wanted)).transpose()?;
        let claims = TokenClaims {
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
