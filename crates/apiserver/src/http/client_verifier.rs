//! Verifies client certificates against the client CA, X.509 version 1 included.
//!
//! webpki reads version 3 alone. kube-apiserver also accepts a version 1 leaf, which is what `openssl x509 -req` makes without
//! an extension file. Such a leaf carries no extensions, so nothing restricts its use to servers.
//!
//! # Guarantees
//!
//! - A version 1 leaf is accepted only if the client CA itself signed it and it has not expired.
//! - Every other certificate is left to webpki, intermediates and key usages included.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Version;

use super::certificate_authority;
use super::identity::IdentityError;

/// Verifies the certificates of clients that present one; a client without one is authenticated by its token.
#[derive(Debug)]
pub struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    ca: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    /// # Errors
    /// The CA certificate cannot be read.
    pub fn new(ca: CertificateDer<'static>) -> Result<ClientVerifier, IdentityError> {
        let wrong = |e: &dyn std::fmt::Display| IdentityError::Tls(e.to_string());
        let provider = certificate_authority::provider();
        let algorithms = provider.signature_verification_algorithms;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone()).map_err(|e| wrong(&e))?;
        let webpki = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|e| wrong(&e))?;
        Ok(ClientVerifier { webpki, ca, algorithms })
    }

    fn verify_version1(&self, leaf: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
        let ca = read(&self.ca)?;
        if leaf.issuer().as_raw() != ca.subject().as_raw() {
            return Err(CertificateError::UnknownIssuer);
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < leaf.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet);
        }
        if now > leaf.validity().not_after.timestamp() {
            return Err(CertificateError::Expired);
        }
        // The outer algorithm is not signed; the signed copy has to be the same (RFC 5280, 4.1.1.2).
        if leaf.signature_algorithm != leaf.tbs_certificate.signature {
            return Err(CertificateError::BadSignature);
        }
        let key = &ca.public_key().subject_public_key.data;
        let signed = leaf.tbs_certificate.as_ref();
        let signature = &leaf.signature_value.data;
        let fits = self.algorithms.all.iter().any(|it| it.verify_signature(key, signed, signature).is_ok());
        if fits { Ok(()) } else { Err(CertificateError::BadSignature) }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match version1(leaf) {
            Some(leaf) => {
                self.verify_version1(&leaf, now)?;
                Ok(ClientCertVerified::assertion())
            }
            None => self.webpki.verify_client_cert(leaf, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(leaf) = version1(certificate) else {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        };
        let key = &leaf.public_key().subject_public_key.data;
        let of_scheme = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let fits = of_scheme
            .flat_map(|(_, algorithms)| algorithms.iter())
            .any(|it| it.verify_signature(key, message, signed.signature()).is_ok());
        if fits {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match version1(certificate) {
            Some(leaf) => {
                let key = SubjectPublicKeyInfoDer::from(leaf.public_key().raw);
                verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
            }
            None => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn read<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertificateError> {
    X509Certificate::from_der(der).map(|(_, read)| read).map_err(|_| CertificateError::BadEncoding)
}

/// The certificate, if it is of version 1.
fn version1<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    read(der).ok().filter(|it| it.version() == X509Version::V1)
}

#[cfg(test)]
mod tests;
