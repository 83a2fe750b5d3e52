package brokersim

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	fetched = "broker-sim[control,tls]"
	install = "python3 -m pip install 'broker-sim[control,tls]' installs it; BROKER_SIM_COMMAND names another program, as in" +
		" python3 -m broker_sim, and BROKER_SIM_CONTROL the address of a control server that runs already"
)

// server is a control server.
type server struct{ url, token string }

var running struct {
	sync.Mutex
	server *server
	stdin  io.Closer // open as long as this process runs: the program ends behind it
}

// find returns the control server of this process: the one that BROKER_SIM_CONTROL names, or one that it starts. A start that failed is
// tried again by the next call.
func find() (*server, error) {
	running.Lock()
	defer running.Unlock()
	if running.server != nil {
		return running.server, nil
	}
	if address := os.Getenv("BROKER_SIM_CONTROL"); address != "" {
		running.server = &server{strings.TrimRight(address, "/"), os.Getenv("BROKER_SIM_CONTROL_TOKEN")}
		return running.server, nil
	}
	words, timeout, err := program()
	if err != nil {
		return nil, err
	}
	url, stdin, err := start(words, timeout)
	if err != nil {
		return nil, err
	}
	running.server, running.stdin = &server{url: url}, stdin
	return running.server, nil
}

// program is the command in BROKER_SIM_COMMAND, broker-sim on the PATH, or, where BROKER_SIM_FETCH is set, uvx or pipx, which fetch it;
// and how long its start may take.
func program() (words []string, timeout time.Duration, err error) {
	if words = strings.Fields(os.Getenv("BROKER_SIM_COMMAND")); len(words) > 0 {
		return words, 30 * time.Second, nil
	}
	if path, err := exec.LookPath("broker-sim"); err == nil {
		return []string{path}, 30 * time.Second, nil
	}
	if os.Getenv("BROKER_SIM_FETCH") == "" {
		return nil, 0, fmt.Errorf("no broker-sim on the PATH; %s; BROKER_SIM_FETCH=1 has uvx or pipx fetch it", install)
	}
	if path, err := exec.LookPath("uvx"); err == nil {
		return []string{path, "--from", fetched, "broker-sim"}, 3 * time.Minute, nil
	}
	if path, err := exec.LookPath("pipx"); err == nil {
		return []string{path, "run", "--spec", fetched, "broker-sim"}, 3 * time.Minute, nil
	}
	return nil, 0, fmt.Errorf("no broker-sim on the PATH, nor uvx or pipx to fetch it; %s", install)
}

func start(words []string, timeout time.Duration) (url string, stdin io.Closer, err error) {
	command := exec.Command(words[0], append(words[1:], "serve", "--control", "0", "--until-eof")...)
	said := &tail{}
	command.Stderr = said
	name := strings.Join(words, " ")
	stdin, err = command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, fmt.Errorf("can't start %s: %w; %s", name, err, install)
	}
	late := time.AfterFunc(timeout, func() { command.Process.Kill() })
	for lines := bufio.NewScanner(stdout); url == "" && lines.Scan(); {
		url, _ = strings.CutPrefix(lines.Text(), "broker-sim control: ")
		if url == lines.Text() {
			url = ""
		}
	}
	if url != "" {
		late.Stop()
		go command.Wait()
		return url, stdin, nil
	}
	inTime := late.Stop()
	command.Wait()
	if !inTime {
		return "", nil, fmt.Errorf("%s is not ready after %s", name, timeout)
	}
	if text := said.String(); text != "" {
		return "", nil, fmt.Errorf("%s ended before it was ready:\n%s", name, text)
	}
	return "", nil, fmt.Errorf("%s ended before it was ready, without a word; %s", name, install)
}

// tail passes what a program writes on, and keeps the last of it for a failure to start.
type tail struct {
	sync.Mutex
	last []byte
}

func (w *tail) Write(text []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	w.last = append(w.last, text...)
	if len(w.last) > 4000 {
		w.last = w.last[len(w.last)-4000:]
	}
	return os.Stderr.Write(text)
}

func (w *tail) String() string {
	w.Lock()
	defer w.Unlock()
	return string(bytes.TrimSpace(w.last))
}
