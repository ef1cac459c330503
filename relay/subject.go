package relay

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Verb is what a request asks, the part of its subject after sb.
type Verb string

const (
	VerbPut     Verb = "put"
	VerbGet     Verb = "get"
	VerbAck     Verb = "ack"
	VerbKeySet  Verb = "key.set"
	VerbKeyGet  Verb = "key.get"
	VerbList    Verb = "list"
	VerbDropPut Verb = "drop.put"
	VerbDropGet Verb = "drop.get"
	VerbDropDel Verb = "drop.del"
	VerbObjPut  Verb = "obj.put"
	VerbObjGet  Verb = "obj.get"
	VerbObjStat Verb = "obj.stat"
	VerbObjDrop Verb = "obj.drop"
	VerbHello   Verb = "hello"
)

// GuestVerbs are what a key may ask of a relay that is not its home: put to
// whoever lists it, and what belongs to that.
var GuestVerbs = []Verb{VerbPut, VerbKeyGet, VerbDropGet, VerbObjPut, VerbObjGet, VerbObjStat, VerbObjDrop, VerbHello}

// MemberVerbs are all of them.
var MemberVerbs = append([]Verb{VerbGet, VerbAck, VerbKeySet, VerbList, VerbDropPut, VerbDropDel}, GuestVerbs...)

// Subject is where self asks verb; to is the mailbox of a put, else zero.
func Subject(verb Verb, to, self Token) string {
	if verb == VerbPut {
		return "sb.put." + to.s + "." + self.s
	}
	return "sb." + string(verb) + "." + self.s
}

// ParseSubject takes a request's subject apart; ok is false for any other subject.
func ParseSubject(s string) (verb Verb, to, from Token, ok bool) {
	rest, ok := strings.CutPrefix(s, "sb.")
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return "", Token{}, Token{}, false
	}
	from, err := ParseToken(rest[i+1:])
	if err != nil {
		return "", Token{}, Token{}, false
	}
	if name, isPut := strings.CutPrefix(rest[:i], "put."); isPut {
		to, err = ParseToken(name)
		return VerbPut, to, from, err == nil
	}
	for _, v := range MemberVerbs {
		if string(v) == rest[:i] && v != VerbPut {
			return v, Token{}, from, true
		}
	}
	return "", Token{}, Token{}, false
}

// MayPublish are the subjects that self may publish, with NATS wildcards.
func MayPublish(self Token, verbs []Verb) []string {
	out := make([]string, len(verbs))
	for i, v := range verbs {
		out[i] = "sb." + string(v) + "." + self.s
		if v == VerbPut {
			out[i] = "sb.put.*." + self.s
		}
	}
	return out
}

// Inbox is the prefix of every subject at which self hears answers.
func Inbox(self Token) string { return "sb.r." + self.s }

// OwnReply says whether an answer to reply can reach nobody but from (R3a).
func OwnReply(from Token, reply string) bool {
	rest, ok := strings.CutPrefix(reply, Inbox(from)+".")
	return ok && rest != "" && !strings.ContainsAny(rest, "*> \t\r\n") && !strings.HasPrefix(rest, ".") &&
		!strings.HasSuffix(rest, ".") && !strings.Contains(rest, "..")
}

// Shard is the stream that holds a mailbox.
func Shard(to Token) int {
	h := fnv.New32a()
	h.Write([]byte(to.s)) //nolint:errcheck // a hash takes everything
	return int(h.Sum32() % Shards)
}

// MailSubject is where the store keeps what from put for to.
func MailSubject(to, from Token) string { return MailPrefix(to) + "." + from.s }

// MailPrefix is the mailbox itself.
func MailPrefix(to Token) string { return "sb.m." + strconv.Itoa(Shard(to)) + "." + to.s }

// ParseMail is the inverse of MailSubject.
func ParseMail(subject string) (to, from Token, ok bool) {
	p := strings.Split(subject, ".")
	if len(p) != 5 || p[0] != "sb" || p[1] != "m" {
		return Token{}, Token{}, false
	}
	to, err := ParseToken(p[3])
	from, err2 := ParseToken(p[4])
	return to, from, err == nil && err2 == nil
}

// ObjectSubject is where the store keeps a chunk.
func ObjectSubject(from Token, id string, n int) string {
	return "sb.o." + from.s + "." + id + "." + strconv.Itoa(n)
}

// GoodID says whether id is 128 to 256 bits in lower-case hex.
func GoodID(id string) bool {
	return len(id) >= 32 && len(id) <= 64 && len(id)%2 == 0 && strings.Trim(id, "0123456789abcdef") == ""
}
