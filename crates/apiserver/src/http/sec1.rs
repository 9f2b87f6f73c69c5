//! P-256 private keys as SEC 1 PEM (RFC 5915, `EC PRIVATE KEY`), with curve and public key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::KeyPair;

use super::identity::IdentityError;

/// Length of the private scalar.
const SECRET_BYTES: usize = 32;
/// DER before the private scalar, in PKCS #8 as well: version 1, and the header of a 32-byte OCTET STRING.
const BEFORE_SECRET: [u8; 5] = [0x02, 0x01, 0x01, 0x04, 0x20];
/// The curve OID 1.2.840.10045.3.1.7 (P-256), tagged as parameters.
const CURVE: [u8; 12] = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// DER before the 65 bytes of the public key: tag, header of a BIT STRING, no unused bits.
const BEFORE_PUBLIC: [u8; 5] = [0xa1, 0x44, 0x03, 0x42, 0x00];
/// Length of the uncompressed public point.
const PUBLIC_BYTES: usize = 65;
const LINE: usize = 64;

/// Encodes a key as PEM.
///
/// # Errors
/// The key is not P-256.
pub fn pem(key: &KeyPair) -> Result<String, IdentityError> {
    let der = der(&key.serialize_der(), key.public_key_raw()).ok_or(IdentityError::Damaged("client key"))?;
    let text = BASE64_STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    Ok(format!("-----BEGIN EC PRIVATE KEY-----\n{lines}-----END EC PRIVATE KEY-----\n"))
}

fn der(pkcs8: &[u8], public: &[u8]) -> Option<Vec<u8>> {
    let head = pkcs8.windows(BEFORE_SECRET.len()).position(|part| part == BEFORE_SECRET)?;
    let secret = pkcs8.get(head + BEFORE_SECRET.len()..)?.get(..SECRET_BYTES)?;
    if public.len() != PUBLIC_BYTES {
        return None;
    }
    let parts = [&BEFORE_SECRET[..], secret, &CURVE, &BEFORE_PUBLIC, public].concat();
    let length = u8::try_from(parts.len()).ok().filter(|length| *length < 0x80)?;
    Some([&[0x30, length], parts.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::sign::any_ecdsa_type;
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn the_same_key_in_another_form() {
        let key = KeyPair::generate().unwrap();
        let text = pem(&key).unwrap();
        assert!(text.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{text}");
        let read = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
        assert!(matches!(read, PrivateKeyDer::Sec1(_)));
        // Fails unless public and private key match.
        let read = any_ecdsa_type(&read).unwrap();
        let public = read.public_key().unwrap();
        assert!(public.as_ref().ends_with(key.public_key_raw()), "it has the same public key");
    }
}
