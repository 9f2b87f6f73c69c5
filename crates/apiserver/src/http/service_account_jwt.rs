//! ServiceAccount tokens: JSON Web Tokens, signed with ES256 by a key of the data directory.
//!
//! # Deliberately absent
//!
//! Whether the ServiceAccount still exists: the caller checks the store, this module signatures and times.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

/// The issuer, and the default audience.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Tolerated clock skew in seconds.
const LEEWAY_SECS: i64 = 60;

/// The claims of a ServiceAccount token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenClaims {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    /// Empty means the default audience, [`ISSUER`].
    pub audiences: Vec<Text>,
    /// The bound object: (`pod` | `secret` | `node`, name, uid). The token ends with it.
    pub bound: Option<(Text, Text, Text)>,
    pub expires: Time,
}

/// Signs and verifies tokens.
pub struct TokenSigningKey {
    key: EcdsaKeyPair,
    chance: SystemRandom,
    id: String,
}

impl TokenSigningKey {
    /// Loads a PKCS #8 key; `None` when it is no P-256 key.
    #[must_use]
    pub fn new(pkcs8: &[u8]) -> Option<Self> {
        let chance = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &chance).ok()?;
        let id = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(key.public_key().as_ref()));
        Some(Self { key, chance, id })
    }

    /// Signs a token; `id` becomes the `jti` claim.
    #[must_use]
    pub fn sign(&self, claims: &TokenClaims, now: Time, id: &str) -> String {
        let header = tree!({"alg": "ES256", "kid": self.id.as_str(), "typ": "JWT"});
        let text = format!("{}.{}", encode(&header), encode(&claims.to_tree(now, id)));
        let signature = self
            .key
            .sign(&self.chance, text.as_bytes())
            .expect("signing needs nothing but the key and chance");
        format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// Verifies signature, issuer and validity period of a token.
    #[must_use]
    pub fn read(&self, token: &str, now: Time) -> Option<TokenClaims> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        // Never trust the token's choice of algorithm: `none` would need no signature.
        if decode(header)?.str_at(&["alg"]) != "ES256" {
            return None;
        }
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(text.as_bytes(), &signature).ok()?;
        TokenClaims::of_tree(&decode(claims)?, seconds(now))
    }
}

impl TokenClaims {
    #[must_use]
    pub fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    fn to_tree(&self, now: Time, id: &str) -> Tree {
        let audiences =
            if self.audiences.is_empty() { vec![Text::from(ISSUER)] } else { self.audiences.clone() };
        let mut own = tree!({
            "namespace": &self.namespace,
            "serviceaccount": {"name": &self.name, "uid": &self.uid},
        });
        if let Some((kind, name, uid)) = &self.bound {
            own = own.with(&[kind.as_str()], tree!({"name": name, "uid": uid}));
        }
        tree!({
            "aud": Tree::list(audiences),
            "exp": seconds(self.expires),
            "iat": seconds(now),
            "iss": ISSUER,
            "jti": id,
            "kubernetes.io": own,
            "nbf": seconds(now),
            "sub": self.user_name(),
        })
    }

    fn of_tree(tree: &Tree, now: i64) -> Option<TokenClaims> {
        let expires = tree.int_at(&["exp"])?;
        let begins = tree.int_at(&["nbf"]).unwrap_or(0);
        if tree.str_at(&["iss"]) != ISSUER || now > expires + LEEWAY_SECS || now + LEEWAY_SECS < begins {
            return None;
        }
        let own = tree.get("kubernetes.io")?;
        let bound = ["pod", "secret", "node"].into_iter().find_map(|kind| {
            let to = own.get(kind)?;
            Some((Text::from(kind), to.text_at(&["name"]), to.text_at(&["uid"])))
        });
        Some(TokenClaims {
            namespace: own.text_at(&["namespace"]),
            name: own.text_at(&["serviceaccount", "name"]),
            uid: own.text_at(&["serviceaccount", "uid"]),
            audiences: tree.items_at(&["aud"]).iter().filter_map(|a| a.as_text().cloned()).collect(),
            bound,
            expires: Time(expires * 1_000_000),
        })
    }
}

fn seconds(time: Time) -> i64 {
    time.0.div_euclid(1_000_000)
}

fn encode(tree: &Tree) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(tree.to_json_bytes())
}

fn decode(part: &str) -> Option<Tree> {
    Tree::parse(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate_key() -> TokenSigningKey {
        let chance = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &chance).unwrap();
        TokenSigningKey::new(pkcs8.as_ref()).unwrap()
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let key = generate_key();
        let now = Time(1_000_000_000);
        let claims = TokenClaims {
            namespace: "a".into(),
            name: "robot".into(),
            uid: "u".into(),
            audiences: vec!["x".into()],
            bound: Some(("pod".into(), "p".into(), "pu".into())),
            expires: Time(1_600_000_000),
        };
        let token = key.sign(&claims, now, "1");
        assert_eq!(key.read(&token, now), Some(claims.clone()));
        assert_eq!(key.read(&token, Time(1_700_000_000)), None, "it has ended");
        assert_eq!(key.read(&token, Time(0)), None, "it has not begun");
        assert_eq!(generate_key().read(&token, now), None, "another key signed it");
        let (text, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = text.split_once('.').unwrap();
        let forged = TokenClaims { name: "root".into(), ..claims };
        let forged = format!("{header}.{}.{signature}", encode(&forged.to_tree(now, "1")));
        assert_eq!(key.read(&forged, now), None, "it was changed");
        for rubbish in ["", ".", "..", "a.b.c", "e30.e30.e30"] {
            assert_eq!(key.read(rubbish, now), None, "{rubbish}");
        }
    }
}
