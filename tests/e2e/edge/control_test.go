package edge

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// What a cloudflared 2026.8.2 said on its control stream: it asks for the capability, registers, and takes that back; each
// answer is acknowledged by a Finish.
const (
	recordedBootstrap    = "000000000500000000000000010001000800000000000000000000000100010000000000000000000000000000000000"
	recordedRegistration = "000000004300000000000000010001000200000000000000000000000300030001000000000000009754e87fec9516f70000000000000000" +
		"0800000001000100180000000000020000000000000000000000000001000000000000000100010000000000000000000100000007000000" +
		"00000000010000000400000001000300c9000000070000000000000000000000080000000000020031000000820000003400000001000200" +
		"050000000a010000150000000201000065323230613833393762316463646166366537383965366161316239363566340000000000000000" +
		"b54c49bc91b796d861b45326087116b08a6bcb9f2e15224e63484a990e9da5c68621a03fe0bb4b7b8e1f7555983aa92f0000000000000000" +
		"040000000000040071000000820000000d00000082000000110000002e000000590000002200000059000000620000005258938186b042dd" +
		"a399c033b27284c5110000009a00000019000000a2000000210000008a00000029000000820000002d000000a200000073657269616c697a" +
		"65645f68656164657273000000000000737570706f72745f646174616772616d5f76320000000000737570706f72745f717569635f656f66" +
		"00000000000000006d616e6167656d656e745f6c6f677300616c6c6f775f72656d6f74655f636f6e66696700000000004445560000000000" +
		"6c696e75785f616d643634000000000000000000000000000000ffff7f0000010000000001000100"
	recordedFinish         = "00000000040000000000000001000100040000000000000000000000010000000000000001000000"
	recordedUnregistration = "000000000e00000000000000010001000200000000000000000000000300030001000000010000009754e87fec9516f70000000000000000" +
		"08000000010001000c00000000000200000000000000000000000000000000000000000000000000fcffffff000000000100000007000000" +
		"0000000001000100"
)

// The tunnel that it registered for.
const recordedTunnel = "8621a03f-e0bb-4b7b-8e1f-7555983aa92f"

// What it was answered, for a connection of which each byte is 7, and took.
const (
	acceptedCapability = "000000000b000000000000000100010003000000000000000000000002000100000000000000000000000000000000000000000000000200" +
		"03000000000000000100000017000000040000000100010001000000000000000000000000000000"
	acceptedDetails = "0000000012000000000000000100010003000000000000000000000002000100010000000000000000000000000000000000000000000200" +
		"0400000000000100000000000000000000000000010001000100000000000000000000000100020001000000000000000500000082000000" +
		"090000004a000000070707070707070707070707070707076c6f6f706261636b0000000000000000"
	acceptedEnd = "0000000008000000000000000100010003000000000000000000000002000100010000000000000000000000000000000000000000000200" +
		"fcffffff000000000000000000000000"
)

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	message, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestARecordedConversationIsAnsweredAsCloudflaredTookIt(t *testing.T) {
	connection := [16]byte(bytes.Repeat([]byte{7}, 16))
	for _, one := range []struct{ said, answered string }{
		{recordedBootstrap, acceptedCapability},
		{recordedRegistration, acceptedDetails},
		{recordedFinish, ""},
		{recordedUnregistration, acceptedEnd},
	} {
		segment, err := readMessage(bytes.NewReader(decoded(t, one.said)))
		if err != nil {
			t.Fatal(err)
		}
		asked, err := parseQuestion(segment)
		if err != nil {
			t.Fatal(err)
		}
		if one.said == recordedRegistration && hyphenated(asked.tunnel) != recordedTunnel {
			t.Errorf("it registers for %s", hyphenated(asked.tunnel))
		}
		answer, err := answerTo(asked, connection)
		if err != nil {
			t.Fatal(err)
		}
		if found := hex.EncodeToString(answer); found != one.answered {
			t.Errorf("%s\nis answered\n%s, not\n%s", one.said, found, one.answered)
		}
	}
}

// Whatever comes, nothing is read out of a message.
func TestAMessageThatIsCutOrBentIsNoQuestion(t *testing.T) {
	whole := decoded(t, recordedRegistration)[wordBytes:]
	for length := range len(whole) {
		_, _ = parseQuestion(whole[:length])
	}
	for at := range whole {
		for _, bent := range []byte{0x00, 0x01, 0x7f, 0x80, 0xff} {
			message := bytes.Clone(whole)
			message[at] = bent
			_, _ = parseQuestion(message)
		}
	}
	if _, err := parseQuestion(whole[:wordBytes]); err == nil {
		t.Error("a pointer out of the message is followed")
	}
	for _, head := range []string{"0100000001000000", "00000000ffffff00", "000000"} {
		if _, err := readMessage(strings.NewReader(string(decoded(t, head)))); err == nil {
			t.Errorf("the head %s is taken", head)
		}
	}
	asked := question{kind: callMessage, method: 2}
	if _, err := answerTo(asked, [16]byte{}); err == nil {
		t.Error("an unknown method is answered")
	}
}
