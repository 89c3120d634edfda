/*
 * relay: copies bytes both ways between each client and a server connection of
 * its own, and looks at none of them. One process, one thread, edge-triggered
 * epoll, one recv and one send per event: the least that anything between a
 * client and PostgreSQL can cost, so the lower bound of the benchmark.
 *
 * It pools nothing. Linux only.
 *
 *   relay LISTEN_PORT SERVER_PORT      both on 127.0.0.1
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define BUFFER_BYTES 65536

/* One end of a pair. What the peer's socket did not take waits in `kept`. */
struct side {
    int fd;
    struct side *peer;
    char *kept; /* bytes received here that the peer has still to take */
    size_t kept_bytes;
    int closed;
};

static int epoll_fd;
static char buffer[BUFFER_BYTES];
/* Sides closed while a batch of events is walked; later events of the same batch may name them. */
static struct side *graveyard[2 * EVENTS_MAX];
static int graves;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(struct side *side)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = side};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, side->fd, &event) < 0)
        die("epoll_ctl");
}

static void bury(struct side *side)
{
    if (side->closed)
        return;
    side->closed = 1;
    close(side->fd);
    graveyard[graves++] = side;
    bury(side->peer);
}

/* Passes on what arrived at `from`, until its socket is drained or its peer is full. */
static void pass_on(struct side *from)
{
    for (;;) {
        while (from->kept_bytes > 0) {
            ssize_t sent = send(from->peer->fd, from->kept, from->kept_bytes, MSG_NOSIGNAL);
            if (sent < 0) {
                if (errno != EAGAIN && errno != ENOTCONN)
                    bury(from);
                return;
            }
            from->kept_bytes -= sent;
            memmove(from->kept, from->kept + sent, from->kept_bytes);
        }
        ssize_t got = recv(from->fd, buffer, sizeof buffer, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            bury(from);
            return;
        }
        if (got < 0)
            return;
        ssize_t sent = send(from->peer->fd, buffer, got, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != ENOTCONN) {
                bury(from);
                return;
            }
            sent = 0;
        }
        if (sent < got) {
            if (from->kept == NULL && (from->kept = malloc(BUFFER_BYTES)) == NULL)
                die("malloc");
            from->kept_bytes = got - sent;
            memcpy(from->kept, buffer + sent, from->kept_bytes);
            return;
        }
        /* A short read means the socket was drained: the next byte brings an event. */
        if (got < (ssize_t)sizeof buffer)
            return;
    }
}

static void accept_all(int listener, const struct sockaddr_in *server)
{
    int one = 1;
    for (;;) {
        int client_fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (client_fd < 0)
            return;
        int server_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (server_fd < 0)
            die("socket");
        setsockopt(client_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(server_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(server_fd, (const struct sockaddr *)server, sizeof *server) < 0 && errno != EINPROGRESS)
            die("connect");
        struct side *pair = calloc(2, sizeof *pair);
        if (pair == NULL)
            die("calloc");
        pair[0].fd = client_fd;
        pair[1].fd = server_fd;
        pair[0].peer = &pair[1];
        pair[1].peer = &pair[0];
        watch(&pair[0]);
        watch(&pair[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: relay LISTEN_PORT SERVER_PORT\n");
        return 2;
    }
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    here.sin_addr.s_addr = server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 4096) < 0)
        die("listen");
    epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0)
        die("epoll");

    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct side *side = events[i].data.ptr;
            if (side == NULL) {
                accept_all(listener, &server);
                continue;
            }
            if (side->closed)
                continue;
            /* Room to send: what the peer received and could not pass on goes first. */
            if ((events[i].events & EPOLLOUT) && side->peer->kept_bytes > 0)
                pass_on(side->peer);
            if (!side->closed && (events[i].events & ~EPOLLOUT) && side->kept_bytes == 0)
                pass_on(side);
        }
        for (int i = 0; i < graves; i++)
            free(graveyard[i]->kept);
        /* The two sides of a pair are one block, and are always buried one after the other. */
        for (int i = 0; i < graves; i += 2)
            free(graveyard[i] < graveyard[i + 1] ? graveyard[i] : graveyard[i + 1]);
        graves = 0;
    }
}
