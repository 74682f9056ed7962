//! What one worker's nodes counted.

crate::counters::counters! {
    OutPackets = "out_packets",
    OutBytes = "out_bytes",
    EncodedPackets = "encoded_packets",
    SavedBytes = "saved_bytes",
    SentAgain = "plain_sent_again",
    Unacknowledged = "plain_unacknowledged",
    Cached = "cached_packets",
    Decoded = "decoded_packets",
    RestoredBytes = "restored_bytes",
    SequenceGaps = "sequence_gaps",
    Missing = "dropped_missing",
    OtherSession = "dropped_session",
    WrongCheck = "dropped_check",
    Malformed = "dropped_malformed",
}
