package edge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The control stream of a connector: Cap'n Proto's remote calls, of which cloudflared makes three. It asks for the one
// capability there is, registers its connection by a call on it, and at its end takes that back by another. What it asks
// for is fixed, so the answers are too, but for the number of the question.
//
// Everything is little-endian words of 8 bytes: https://capnproto.org/encoding.html, and rpc.capnp there.

const wordBytes = 8

// A message of a connector takes about a hundred words.
const longestMessageWords = 8192

// What a message is, by its first two bytes (`Message` in rpc.capnp). The others ask for nothing.
const (
	callMessage      = 2
	returnMessage    = 3
	bootstrapMessage = 8
)

// The methods of cloudflared's `RegistrationServer`.
const (
	registerConnection   = 0
	unregisterConnection = 1
)

// question is what a message asks for.
type question struct {
	kind   int
	number uint32
	method uint16
	tunnel [16]byte // of a registration
}

// readMessage reads one message: a segment behind its head of one word.
func readMessage(stream io.Reader) ([]byte, error) {
	var head [wordBytes]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	further, words := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if further != 0 || words > longestMessageWords {
		return nil, fmt.Errorf("a message of %d segments and %d words", uint64(further)+1, words)
	}
	segment := make([]byte, words*wordBytes)
	_, err := io.ReadFull(stream, segment)
	return segment, err
}

// parseQuestion reads what cloudflared asks for.
func parseQuestion(segment []byte) (question, error) {
	message, err := segmentOf(segment).structAt(0)
	if err != nil {
		return question{}, err
	}
	asked := question{kind: int(message.number16(0))}
	if asked.kind != callMessage && asked.kind != bootstrapMessage {
		return asked, nil
	}
	body, err := message.structPointer(0)
	if err != nil {
		return question{}, err
	}
	asked.number = uint32(body.number16(0)) | uint32(body.number16(2))<<16
	if asked.kind == bootstrapMessage {
		return asked, nil
	}
	asked.method = body.number16(4)
	if asked.method != registerConnection {
		return asked, nil
	}
	payload, err := body.structPointer(1)
	if err != nil {
		return question{}, err
	}
	parameters, err := payload.structPointer(0)
	if err != nil {
		return question{}, err
	}
	tunnel, err := parameters.bytesPointer(1)
	if err != nil {
		return question{}, err
	}
	if copy(asked.tunnel[:], tunnel) != len(asked.tunnel) || len(tunnel) != len(asked.tunnel) {
		return question{}, fmt.Errorf("a tunnel's id of %d bytes", len(tunnel))
	}
	return asked, nil
}

// segmentOf is the words of a message, whose pointers count in words from where they stand.
type segmentOf []byte

type structure struct {
	segment        segmentOf
	data, pointers int // where they begin, in words
	dataWords      int
	pointerWords   int
}

var errPointer = errors.New("a pointer of another kind, or out of the message")

func (s segmentOf) word(at int) (uint64, error) {
	if at < 0 || (at+1)*wordBytes > len(s) {
		return 0, errPointer
	}
	return binary.LittleEndian.Uint64(s[at*wordBytes:]), nil
}

// structAt follows the pointer to a structure that stands at a word.
func (s segmentOf) structAt(at int) (structure, error) {
	pointer, err := s.word(at)
	if err != nil || pointer&3 != 0 {
		return structure{}, errPointer
	}
	data, dataWords, pointerWords := at+1+int(int32(pointer)>>2), int(pointer>>32&0xffff), int(pointer>>48)
	if end := data + dataWords + pointerWords; data < 0 || end*wordBytes > len(s) {
		return structure{}, errPointer
	}
	return structure{s, data, data + dataWords, dataWords, pointerWords}, nil
}

// number16 is two bytes of the data. What a structure is too short for is zero.
func (s structure) number16(at int) uint16 {
	if at+2 > s.dataWords*wordBytes {
		return 0
	}
	return binary.LittleEndian.Uint16(s.segment[s.data*wordBytes+at:])
}

func (s structure) structPointer(number int) (structure, error) {
	if number >= s.pointerWords {
		return structure{}, errPointer
	}
	return s.segment.structAt(s.pointers + number)
}

// bytesPointer follows the pointer to a list of bytes.
func (s structure) bytesPointer(number int) ([]byte, error) {
	at := s.pointers + number
	pointer, err := s.segment.word(at)
	if number >= s.pointerWords || err != nil || pointer&3 != 1 || pointer>>32&7 != 2 {
		return nil, errPointer
	}
	begin, count := (at+1+int(int32(pointer)>>2))*wordBytes, int(pointer>>35)
	if begin < 0 || begin+count > len(s.segment) {
		return nil, errPointer
	}
	return s.segment[begin : begin+count], nil
}

// structPointer and bytesPointer are the words of pointers to what begins so many words behind them.
func structPointer(offset, dataWords, pointerWords int) uint64 {
	return uint64(uint32(offset)<<2) | uint64(dataWords)<<32 | uint64(pointerWords)<<48
}

func bytesPointer(offset, count int) uint64 { return 1 | uint64(offset)<<2 | 2<<32 | uint64(count)<<35 }

// answerTo is the `Return` to a question, nil where it wants none.
func answerTo(asked question, connection [16]byte) ([]byte, error) {
	switch {
	case asked.kind == bootstrapMessage:
		return returning(asked.number,
			3,                      // the first capability of the table
			1|7<<32|2<<35,          // a list of structures, two words long: the table
			structPointer(1, 1, 1), // one of them, with a word of data and a pointer
			1, 0,                   // hosted by the sender, as its number 0
		), nil
	case asked.kind != callMessage:
		return nil, nil
	case asked.method == registerConnection:
		return returning(asked.number,
			structPointer(1, 0, 1), 0,
			structPointer(0, 1, 1), // ConnectionResponse
			1,                      // which has details
			structPointer(0, 1, 2), // ConnectionDetails
			1,                      // the tunnel is managed remotely
			bytesPointer(1, len(connection)), bytesPointer(2, len("loopback")+1),
			binary.LittleEndian.Uint64(connection[:]), binary.LittleEndian.Uint64(connection[8:]),
			binary.LittleEndian.Uint64([]byte("loopback")), 0,
		), nil
	case asked.method == unregisterConnection:
		return returning(asked.number, structPointer(-1, 0, 0), 0), nil
	default:
		return nil, fmt.Errorf("method %d is not known", asked.method)
	}
}

// returning is a `Return` with results: these words are the two pointers of its `Payload` and what they lead to.
func returning(number uint32, payload ...uint64) []byte {
	words := append([]uint64{
		structPointer(0, 1, 1), returnMessage,
		structPointer(0, 2, 1), uint64(number), 0,
		structPointer(0, 0, 2),
	}, payload...)
	message := binary.LittleEndian.AppendUint64(nil, uint64(len(words))<<32)
	for _, word := range words {
		message = binary.LittleEndian.AppendUint64(message, word)
	}
	return message
}
