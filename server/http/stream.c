/*
 * A ring buffer: `full` pieces from `first` on can be read, of which `taken` bytes of the first were. The piece after
 * them belongs to the maker while it fills it. Everything is under one mutex, which is taken outside that of the
 * suspended connections (wait.h); the maker writes without holding it.
 *
 * A reader that finds nothing suspends the connection and gives it to the stream, which holds it until there is
 * something to read. If the client disconnects meanwhile, or the service stops, the connection is taken back from the
 * stream.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/stream.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/wait.h"
#include "server/ops/metrics.h"

enum ending { GOING, ENDED, FAILED };

struct stream {
    pthread_mutex_t mutex;
    const struct stream_maker *maker;
    void *user;
    struct request *request; /* NULL: there is no reply yet */
    size_t first;
    size_t taken;
    size_t full;
    enum ending ending; /* FAILED: or abandoned */
    bool filling;       /* requested, or in progress */
    bool held;          /* the stream holds the connection until there is something to read */
    bool closed;
    size_t len[STREAM_PIECES];
    char data[STREAM_PIECES][STREAM_PIECE];
};

struct stream *stream_create(const struct stream_maker *maker, void *user)
{
    struct stream *stream = malloc(sizeof *stream);
    if (stream) {
        memset(stream, 0, offsetof(struct stream, data));
        pthread_mutex_init(&stream->mutex, NULL);
        stream->maker = maker;
        stream->user = user;
    }
    return stream;
}

/* Requires that the stream is closed and not being filled. */
static void stream_free(struct stream *stream)
{
    stream->maker->release(stream->user);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

void stream_close(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    assert(!stream->held && !stream->closed);
    stream->closed = true;
    bool last = !stream->filling;
    pthread_mutex_unlock(&stream->mutex);
    if (last)
        stream_free(stream);
}

/* ---------------------------------------------------------------- the maker's side */

bool stream_closed(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    bool closed = stream->closed;
    pthread_mutex_unlock(&stream->mutex);
    return closed;
}

static bool room_locked(const struct stream *stream)
{
    return !stream->closed && stream->ending == GOING && stream->full < STREAM_PIECES;
}

static void resume_locked(struct stream *stream)
{
    if (stream->held) {
        stream->held = false;
        request_resume(stream->request);
    }
}

static void make_locked(struct stream *stream)
{
    size_t piece = (stream->first + stream->full) % STREAM_PIECES;
    pthread_mutex_unlock(&stream->mutex);
    ptrdiff_t made = stream->maker->make(stream->user, stream->data[piece], STREAM_PIECE);
    pthread_mutex_lock(&stream->mutex);
    assert(made <= STREAM_PIECE);
    if (made > 0) {
        stream->len[piece] = (size_t)made;
        stream->full++;
    } else {
        stream->ending = made == 0 ? ENDED : FAILED;
    }
    resume_locked(stream);
}

/* After each piece the thread serves the next stream that waits. */
void stream_fill(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    assert(stream->filling);
    if (room_locked(stream))
        make_locked(stream);
    bool more = room_locked(stream);
    bool last = stream->closed;
    stream->filling = more;
    pthread_mutex_unlock(&stream->mutex);
    if (last)
        stream_free(stream);
    else if (more)
        stream->maker->wanted(stream->user, stream);
}

/* ---------------------------------------------------------------- the reader's side */

static bool stream_give(void *user)
{
    struct stream *stream = user;
    pthread_mutex_lock(&stream->mutex);
    stream->held = !stream->full && stream->ending == GOING;
    bool held = stream->held;
    pthread_mutex_unlock(&stream->mutex);
    return held;
}

static bool stream_take_back(void *user)
{
    struct stream *stream = user;
    pthread_mutex_lock(&stream->mutex);
    bool held = stream->held;
    stream->held = false;
    if (held)
        stream->ending = FAILED;
    pthread_mutex_unlock(&stream->mutex);
    return held;
}

/* Copies the available bytes. *wanted: there is room, so the maker must be told. */
static size_t take(struct stream *stream, char *out, size_t most, bool *wanted, enum ending *ending)
{
    size_t len = 0;
    pthread_mutex_lock(&stream->mutex);
    if (stream->full) {
        size_t left = stream->len[stream->first] - stream->taken;
        len = left < most ? left : most;
        memcpy(out, stream->data[stream->first] + stream->taken, len);
        stream->taken += len;
        if (len == left) {
            stream->first = (stream->first + 1) % STREAM_PIECES;
            stream->taken = 0;
            stream->full--;
        }
    }
    *ending = stream->full ? GOING : stream->ending;
    *wanted = room_locked(stream) && stream->full <= STREAM_PIECES / 2 && !stream->filling;
    stream->filling = stream->filling || *wanted;
    pthread_mutex_unlock(&stream->mutex);
    return len;
}

static ssize_t suspend(struct stream *stream)
{
    static const struct holder holder = {stream_give, stream_take_back};
    struct request *request = stream->request;
    connection_busy(request->place, INFINITY);
    if (!request_suspend(request, NULL))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    request_give(request, &holder, stream, clock_monotonic() + WAIT_MAX_SECONDS);
    return 0;
}

static ssize_t stream_read(void *cls, uint64_t position, char *out, size_t most)
{
    struct stream *stream = cls;
    struct request *request = stream->request;
    enum ending ending;
    bool wanted;
    (void)position;
    if (waits_stopping(request->server->waits))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t len = take(stream, out, most, &wanted, &ending);
    if (wanted)
        stream->maker->wanted(stream->user, stream);
    if (len) {
        reply_streams_on(request, len);
        return (ssize_t)len;
    }
    return ending == GOING   ? suspend(stream)
           : ending == ENDED ? MHD_CONTENT_READER_END_OF_STREAM
                             : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void stream_read_no_more(void *cls)
{
    stream_close(cls);
    metric_add(METRIC_STREAMS_DRAWN, -1);
}

enum handled reply_stream(struct request *request, const char *type, struct stream *stream)
{
    stream->request = request;
    metric_add(METRIC_STREAMS_DRAWN, 1); /* until stream_read_no_more() */
    return reply_made(request, type, sizeof *stream, stream_read, stream_read_no_more, stream);
}
