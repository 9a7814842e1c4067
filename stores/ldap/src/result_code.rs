//! Result codes (RFC 4511, appendix A; RFC 4370, 4528, 4533 for those above 100).

/// Codes that answers are looked through for.
pub(crate) const SUCCESS: i32 = 0;
pub(crate) const COMPARE_FALSE: i32 = 5;
pub(crate) const COMPARE_TRUE: i32 = 6;
pub(crate) const REFERRAL: i32 = 10;
pub(crate) const NO_SUCH_OBJECT: i32 = 32;

/// The code's name in the standards; `code` for others.
pub(crate) fn name(code: i32) -> &'static str {
    match code {
        0 => "success",
        1 => "operationsError",
        2 => "protocolError",
        3 => "timeLimitExceeded",
        4 => "sizeLimitExceeded",
        5 => "compareFalse",
        6 => "compareTrue",
        7 => "authMethodNotSupported",
        8 => "strongerAuthRequired",
        10 => "referral",
        11 => "adminLimitExceeded",
        12 => "unavailableCriticalExtension",
        13 => "confidentialityRequired",
        14 => "saslBindInProgress",
        16 => "noSuchAttribute",
        17 => "undefinedAttributeType",
        18 => "inappropriateMatching",
        19 => "constraintViolation",
        20 => "attributeOrValueExists",
        21 => "invalidAttributeSyntax",
        32 => "noSuchObject",
        33 => "aliasProblem",
        34 => "invalidDNSyntax",
        36 => "aliasDereferencingProblem",
        48 => "inappropriateAuthentication",
        49 => "invalidCredentials",
        50 => "insufficientAccessRights",
        51 => "busy",
        52 => "unavailable",
        53 => "unwillingToPerform",
        54 => "loopDetect",
        64 => "namingViolation",
        65 => "objectClassViolation",
        66 => "notAllowedOnNonLeaf",
        67 => "notAllowedOnRDN",
        68 => "entryAlreadyExists",
        69 => "objectClassModsProhibited",
        71 => "affectsMultipleDSAs",
        80 => "other",
        118 => "canceled",
        119 => "noSuchOperation",
        120 => "tooLate",
        121 => "cannotCancel",
        122 => "assertionFailed",
        123 => "authorizationDenied",
        4096 => "e-syncRefreshRequired",
        _ => "code",
    }
}

/// Name and number: `busy (51)`.
pub(crate) fn named(code: i32) -> String {
    format!("{} ({code})", name(code))
}

/// Reports whether such a reply leaves the outcome of a write unknown: the server or a proxy stopped waiting, or
/// something broke half-way.
pub(crate) fn leaves_open(code: i32) -> bool {
    matches!(name(code), "timeLimitExceeded" | "unavailable" | "other")
}
