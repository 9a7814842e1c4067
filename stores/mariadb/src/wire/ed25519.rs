//! The proof that MariaDB's `client_ed25519` sends: an Ed25519 signature of the server's random text (RFC 8032, section
//! 5.1.6), whose secret key is the password itself, of whatever length. The server knows the public key only.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use sha2::{Digest, Sha512};

/// Signs `nonce`.
pub(crate) fn proof(password: &[u8], nonce: &[u8]) -> [u8; 64] {
    let (secret, prefix) = expand(password);
    let public = EdwardsPoint::mul_base(&secret).compress();
    let once = scalar(Sha512::new().chain_update(prefix).chain_update(nonce));
    let commitment = EdwardsPoint::mul_base(&once).compress();
    let challenge = Sha512::new().chain_update(commitment.as_bytes()).chain_update(public.as_bytes());
    let response = once + scalar(challenge.chain_update(nonce)) * secret;
    let mut signature = [0; 64];
    let (first, second) = signature.split_at_mut(32);
    first.copy_from_slice(commitment.as_bytes());
    second.copy_from_slice(response.as_bytes());
    signature
}

/// The secret scalar, and what makes a signature's own secret.
fn expand(password: &[u8]) -> (Scalar, [u8; 32]) {
    let hash = Sha512::digest(password);
    let half = |from: usize| std::array::from_fn(|place| hash[from + place]);
    (Scalar::from_bytes_mod_order(clamp_integer(half(0))), half(32))
}

fn scalar(hash: Sha512) -> Scalar {
    let hash = hash.finalize();
    Scalar::from_bytes_mod_order_wide(&std::array::from_fn(|place| hash[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// RFC 8032, section 7.1, tests 1 and 3: there too the secret key is a string of bytes.
    #[test]
    fn signatures_are_those_of_the_rfc() {
        let key = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        assert_eq!(proof(&key, b"").to_vec(), bytes(TEST_1));
        let key = bytes("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
        assert_eq!(proof(&key, &[0xaf, 0x82]).to_vec(), bytes(TEST_3));
    }

    const TEST_1: &str = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
                          d25bf5f0595bbe24655141438e7a100b";
    const TEST_3: &str = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659\
                          4a7c15e9716ed28dc027beceea1ec40a";
}
